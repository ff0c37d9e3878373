"""Claude Code's settings with and without demur's hooks; everything else stays as it is.

A hook that ends with any status but 0 and 2 lets the action run. So hooks that run before an
action turn every other status into 2, also that of a missing or crashed program. Hooks that run
after an action end the run instead. The file is replaced in one step, and a copy is kept.
"""

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path, PurePath
from tempfile import mkstemp
from typing import Any, NamedTuple

from demur.errors import InputError
from demur.integrations.claude_code.fallback import refusal_line, stop_output

_HOOK_WORDS = ["hook", "claude-code"]
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
# Longer than the hook's own budget: Claude Code lets an action run if its hook times out.
_TIMEOUT_S = 60
_NO_ANSWER = refusal_line("GUARDRAIL_UNAVAILABLE", "the hook gave no answer")


class HookedEvent(NamedTuple):
    """An event to hook, its matcher, and the shell command if the hook fails."""

    name: str
    matcher: str | None = None
    otherwise: str = ""


_BLOCK_COMMAND = "exit 2"
# A file that a team shares names no path of one machine. What the shell's environment could have
# Python import is left out.
SHARED_PREFIX = ("env", "-u", "PYTHONPATH", "-u", "PYTHONHOME", "-u", "PYTHONSTARTUP")
_MISSING = "the demur hook gave no answer; if demur is not installed: pip install demur"
_SHARED_BLOCK_COMMAND = f"{{ echo {shlex.quote(_MISSING)} >&2; exit 2; }}"
# The tool's output exists already: only a stop keeps it from the model.
_STOP_COMMAND = f"echo {shlex.quote(json.dumps(stop_output(_NO_ANSWER)))}"

HOOKED_EVENTS = (
    HookedEvent("PreToolUse", "*", _BLOCK_COMMAND),
    HookedEvent("PostToolUse", "*", _STOP_COMMAND),
    HookedEvent("PostToolUseFailure", "*"),
    HookedEvent("PostToolBatch", None, _STOP_COMMAND),
    HookedEvent("UserPromptSubmit", None, _BLOCK_COMMAND),
    HookedEvent("PreCompact"),
    HookedEvent("PostCompact"),
    HookedEvent("SessionStart"),
)


def hook_command(words: Sequence[str], otherwise: str = "") -> str:
    """Return the command line of a hook; the shell expands `$CLAUDE_PROJECT_DIR`.

    `otherwise` runs if the hook fails.
    """
    line = " ".join(map(_quote_word, words))
    return f"{line} || {otherwise}" if otherwise else line


def _quote_word(word: str) -> str:
    variable = "$CLAUDE_PROJECT_DIR"
    if not word.startswith(f"{variable}/"):
        return shlex.quote(word)
    return f'"{variable}"{shlex.quote(word.removeprefix(variable))}'


def is_demur_command(command: object) -> bool:
    """Return whether a command of the settings is one that `hook_command` wrote."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    if words[: len(SHARED_PREFIX)] == list(SHARED_PREFIX):
        words = words[len(SHARED_PREFIX) :]
    by_name = words[:1] and PurePath(words[0]).stem == "demur" and words[1:3] == _HOOK_WORDS
    by_module = ["-m", "demur", *_HOOK_WORDS]
    places = range(len(words) - len(by_module) + 1)
    return bool(by_name) or any(words[place:][: len(by_module)] == by_module for place in places)


def is_isolated_command(command: str) -> bool:
    """Return whether a hook runs an absolute interpreter that ignores its environment."""
    words = shlex.split(command)
    return PurePath(words[0]).is_absolute() and words[1:3] == ["-I", "-m"]


def list_demur_commands(settings: Mapping[str, Any]) -> list[str]:
    """Return the commands of the settings that run demur.

    Raises:
        InputError: The hooks are not in the format of Claude Code.
    """
    groups = (group for groups in _require_hooks(settings).values() for group in groups)
    hooks = (hook for group in groups if _has_demur_hook(group) for hook in group["hooks"])
    return [hook["command"] for hook in hooks if _is_demur_hook(hook)]


def add_hooks(settings: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Return the settings with a hook that runs `words` at each event, and no other demur hook.

    Raises:
        InputError: The existing hooks are not in the format of Claude Code.
    """
    # INVARIANT: installing twice is installing once.
    hooks = {event: list(groups) for event, groups in _require_hooks(settings).items()}
    ours = {event.name: _hook_group(event, words) for event in HOOKED_EVENTS}
    for name in (*hooks, *ours):
        groups, group = hooks.get(name, []), ours.get(name)
        if group in groups and sum(map(_has_demur_hook, groups)) == 1:
            continue
        hooks[name] = [*_without_demur_hooks(groups), *([] if group is None else [group])]
    return {**settings, "hooks": {name: groups for name, groups in hooks.items() if groups}}


def remove_hooks(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without the hooks of demur.

    Raises:
        InputError: The existing hooks are not in the format of Claude Code.
    """
    # INVARIANT: removing undoes installing, and changes nothing else.
    before = _require_hooks(settings)
    if not any(_has_demur_hook(group) for groups in before.values() for group in groups):
        return dict(settings)
    hooks = {name: list(_without_demur_hooks(groups)) for name, groups in before.items()}
    kept = {name: groups for name, groups in hooks.items() if groups or not before[name]}
    rest = {name: value for name, value in settings.items() if name != "hooks"}
    return {**settings, "hooks": kept} if kept else rest


def parse_settings(text: str, where: str) -> dict[str, Any]:
    """Return the settings in a text; an empty one holds none.

    Raises:
        InputError: It is no JSON object, or cannot be written back unchanged.
    """
    if not text.strip():
        return {}
    try:
        settings = json.loads(
            text, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant
        )
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        help_text = "comments and trailing commas are not JSON; nothing was changed"
        raise InputError(
            problem, where=f"{where}:{error.lineno}:{error.colno}", help=help_text
        ) from error
    except (ValueError, RecursionError) as error:
        problem = str(error) if isinstance(error, ValueError) else "too deep"
        raise InputError(f"not JSON: {problem}", where=where) from error
    if not isinstance(settings, dict):
        raise InputError("settings are a JSON object", where=where)
    return settings


def dump_settings(settings: Mapping[str, Any], like: str = "") -> str:
    """Return the settings as text, indented and ended like the text they were read from."""
    indent = _INDENT.search(like)
    text = json.dumps(settings, indent=indent[1] if indent else 2, ensure_ascii=False)
    text = text if like.strip() and not like.endswith("\n") else f"{text}\n"
    return text.replace("\n", "\r\n") if "\r\n" in like else text


def _hook_group(event: HookedEvent, words: Sequence[str]) -> dict[str, Any]:
    otherwise = event.otherwise
    if otherwise == _BLOCK_COMMAND and tuple(words[: len(SHARED_PREFIX)]) == SHARED_PREFIX:
        otherwise = _SHARED_BLOCK_COMMAND
    command = hook_command(words, otherwise)
    hook = {"type": "command", "command": command, "timeout": _TIMEOUT_S}
    return {**({} if event.matcher is None else {"matcher": event.matcher}), "hooks": [hook]}


def _require_hooks(settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(one, list) for one in hooks.values()):
        raise InputError(
            "`hooks` must be an object of lists",
            where="hooks",
            help="Claude Code does not read it as it is; repair it first",
        )
    return hooks


def _has_demur_hook(group: object) -> bool:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return isinstance(hooks, list) and any(map(_is_demur_hook, hooks))


def _without_demur_hooks(groups: Sequence[Any]) -> Iterator[Any]:
    """Yield the groups without demur's commands; groups left empty are dropped."""
    for group in groups:
        if not _has_demur_hook(group):
            yield group
            continue
        kept = [hook for hook in group["hooks"] if not _is_demur_hook(hook)]
        if kept:
            yield {**group, "hooks": kept}


def _is_demur_hook(hook: object) -> bool:
    return isinstance(hook, dict) and is_demur_command(hook.get("command"))


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`{twice}` is a duplicate key")
    return found


def _reject_constant(name: str) -> Any:
    raise ValueError(f"`{name}` is not a number")


_MAX_SETTINGS_BYTES = 10_000_000
_OWNER_ONLY = 0o600


class SettingsFile(NamedTuple):
    """A settings file and its text; `target` is its resolved path."""

    path: Path
    target: Path
    text: str
    exists: bool


def read_settings_file(path: Path) -> SettingsFile:
    """Return the file at a path, which need not exist yet.

    Raises:
        InputError: It cannot be read.
    """
    try:
        target = path.resolve()
        if not target.exists():
            return SettingsFile(path, target, "", exists=False)
        if target.stat().st_size > _MAX_SETTINGS_BYTES:
            raise InputError(f"more than {_MAX_SETTINGS_BYTES} bytes", where=str(path))
        text = target.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8 text", where=str(path)) from error
    except (OSError, RuntimeError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot read the settings: {reason}", where=str(path)) from error
    return SettingsFile(path, target, text, exists=True)


def replace_settings_file(file: SettingsFile, text: str) -> Path | None:
    """Replace the text of the file; return the backup of the old text, if there was one.

    Raises:
        InputError: It cannot be written, or it changed since it was read.
    """
    try:
        if read_settings_file(file.path) != file:
            problem = "the file has changed since it was read"
            raise InputError(problem, where=str(file.path), help="try again")
        file.target.parent.mkdir(parents=True, exist_ok=True)
        copy = _keep_backup(file) if file.exists else None
        mode = file.target.stat().st_mode & 0o777 if file.exists else _OWNER_ONLY
        _swap_content(file.target, text, mode)
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise InputError(f"cannot write: {reason}", where=str(file.path)) from error
    return copy


def _swap_content(target: Path, text: str, mode: int) -> None:
    handle, name = mkstemp(prefix=f".{target.name}.", dir=target.parent)
    new = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(text.encode())
            out.flush()
            os.fsync(out.fileno())
        new.chmod(mode)
        new.replace(target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _keep_backup(file: SettingsFile) -> Path:
    """Copy the old settings to a new file beside them, and return its path."""
    for number in count():
        path = file.target.with_name(f"{file.target.name}.bak{number or ''}")
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        except FileExistsError:
            continue
        with os.fdopen(handle, "wb") as out:
            out.write(file.text.encode())
        break
    return path
