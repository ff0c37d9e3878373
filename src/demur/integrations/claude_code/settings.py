"""Claude Code's settings with and without the hooks of demur; everything else stays as it is.

A hook that ends with any status but 0 and 2 lets the action run, so the commands that stand
before an action turn every other end into 2: also a missing program, or one that crashed. Those
that stand behind one end the run then.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from demur.errors import InputError
from demur.integrations.claude_code.emergency import refusal_line, stopping

__all__ = [
    "EVENTS",
    "HookEvent",
    "dump_settings",
    "hook_command",
    "is_ours",
    "read_settings",
    "with_hooks",
    "without_hooks",
]

_OURS = ["hook", "claude-code"]
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
# Longer than the hook's own budget: Claude Code lets an action run if its hook times out.
_TIMEOUT_S = 60
_NO_ANSWER = refusal_line("GUARDRAIL_UNAVAILABLE", "the hook gave no answer")


class HookEvent(NamedTuple):
    """An event to hook, its matcher, and the shell command if the hook fails."""

    name: str
    matcher: str | None = None
    otherwise: str = ""


_BLOCK = "exit 2"
# The tool's output exists already: only a stop keeps it from the model.
_STOP = f"echo {shlex.quote(json.dumps(stopping(_NO_ANSWER)))}"

EVENTS = (
    HookEvent("PreToolUse", "*", _BLOCK),
    HookEvent("PostToolUse", "*", _STOP),
    HookEvent("PostToolUseFailure", "*"),
    HookEvent("PostToolBatch", None, _STOP),
    HookEvent("UserPromptSubmit", None, _BLOCK),
    HookEvent("PreCompact"),
    HookEvent("PostCompact"),
    HookEvent("SessionStart"),
)


def hook_command(words: Sequence[str], otherwise: str = "") -> str:
    """Return the command line of a hook; the shell expands `$CLAUDE_PROJECT_DIR`.

    `otherwise` runs if the hook fails.
    """
    line = " ".join(map(_quoted, words))
    return f"{line} || {otherwise}" if otherwise else line


def _quoted(word: str) -> str:
    variable = "$CLAUDE_PROJECT_DIR"
    if not word.startswith(f"{variable}/"):
        return shlex.quote(word)
    return f'"{variable}"{shlex.quote(word.removeprefix(variable))}'


def is_ours(command: object) -> bool:
    """Return whether a command of the settings is one that `hook_command` wrote."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    by_name = words[:1] and PurePath(words[0]).stem == "demur" and words[1:3] == _OURS
    by_module = ["-m", "demur", *_OURS]
    places = range(len(words) - len(by_module) + 1)
    return bool(by_name) or any(words[place:][: len(by_module)] == by_module for place in places)


def with_hooks(settings: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Return the settings with a hook that runs `words` at each event, and no other demur hook.

    Raises:
        InputError: The existing hooks are not in the format of Claude Code.
    """
    # INVARIANT: installing twice is installing once.
    hooks = {event: list(groups) for event, groups in _hooks(settings).items()}
    wanted = {event.name: _group(event, words) for event in EVENTS}
    for name in (*hooks, *wanted):
        groups, group = hooks.get(name, []), wanted.get(name)
        if group in groups and sum(map(_names_us, groups)) == 1:
            continue
        hooks[name] = [*_others(groups), *([] if group is None else [group])]
    return {**settings, "hooks": {name: groups for name, groups in hooks.items() if groups}}


def without_hooks(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without the hooks of demur.

    Raises:
        InputError: The existing hooks are not in the format of Claude Code.
    """
    # INVARIANT: removing undoes installing, and changes nothing else.
    before = _hooks(settings)
    if not any(_names_us(group) for groups in before.values() for group in groups):
        return dict(settings)
    hooks = {name: list(_others(groups)) for name, groups in before.items()}
    kept = {name: groups for name, groups in hooks.items() if groups or not before[name]}
    rest = {name: value for name, value in settings.items() if name != "hooks"}
    return {**settings, "hooks": kept} if kept else rest


def read_settings(text: str, where: str) -> dict[str, Any]:
    """Return the settings in a text; an empty one holds none.

    Raises:
        InputError: It is no JSON object, or cannot be written back unchanged.
    """
    if not text.strip():
        return {}
    try:
        settings = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_number)
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


def _group(event: HookEvent, words: Sequence[str]) -> dict[str, Any]:
    command = hook_command(words, event.otherwise)
    hook = {"type": "command", "command": command, "timeout": _TIMEOUT_S}
    return {**({} if event.matcher is None else {"matcher": event.matcher}), "hooks": [hook]}


def _hooks(settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(one, list) for one in hooks.values()):
        raise InputError(
            "`hooks` must be an object of lists",
            where="hooks",
            help="Claude Code does not read it as it is; repair it first",
        )
    return hooks


def _names_us(group: object) -> bool:
    return any(is_ours(hook.get("command")) for hook in _commands(group))


def _others(groups: Sequence[Any]) -> Iterator[Any]:
    """Yield the groups without demur's commands; groups left empty are dropped."""
    for group in groups:
        if not _names_us(group):
            yield group
            continue
        kept = [hook for hook in group["hooks"] if not _is_our_hook(hook)]
        if kept:
            yield {**group, "hooks": kept}


def _commands(group: object) -> Iterator[dict[str, Any]]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return (
        (hook for hook in hooks if isinstance(hook, dict)) if isinstance(hooks, list) else iter(())
    )


def _is_our_hook(hook: object) -> bool:
    return isinstance(hook, dict) and is_ours(hook.get("command"))


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`{twice}` is a duplicate key")
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"`{name}` is not a number")
