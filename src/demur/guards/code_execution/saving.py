"""Which files a call leaves behind, and what is known of what they hold."""

import posixpath
import re
from collections.abc import Iterator

from demur.guards.code_execution.call import ProgramCall, parse_options
from demur.guards.code_execution.effects import EffectKind, find_effects
from demur.guards.code_execution.scope import ShellState
from demur.guards.code_execution.value import UNKNOWN, TextValue

__all__ = ["written_files"]

_COPIERS = frozenset({"cp", "mv", "install", "ln"})
_FETCHERS = frozenset({"curl", "wget", "aria2c", "axel", "nscurl"})
_FILE_WRITERS = _COPIERS | _FETCHERS | {"tee", "dd", "sponge"}
_BY_NAME = re.compile(r"-[a-zA-Z]*O[a-zA-Z]*|--remote-name")


def written_files(
    call: ProgramCall, result: TextValue, state: ShellState
) -> Iterator[tuple[str, TextValue, bool]]:
    """Yield each file that `call` writes: its path, its content, and whether it appends."""
    for write in call.writes:
        yield write.target.text, result, write.append
    if call.verb not in _FILE_WRITERS:
        return
    content = _written_content(call, result, state)
    for effect in find_effects(call._replace(writes=(), reads=())):
        if effect.kind is EffectKind.WRITE:
            yield effect.target.text, content, effect.adds and call.verb == "tee"
    if call.verb in _FETCHERS:
        yield from ((name, result, False) for name in _names_from_urls(call))


def _written_content(call: ProgramCall, result: TextValue, state: ShellState) -> TextValue:
    """Return the content of the files that a call names."""
    if call.verb in {"tee", "sponge"}:
        return call.stdin
    if call.verb in _COPIERS:
        operands = parse_options(call.args).operands
        path = state.resolve_path(operands[0].text) if operands else ""
        return state.files.get(path, UNKNOWN._replace(taints=result.taints))
    return result


def _names_from_urls(call: ProgramCall) -> Iterator[str]:
    """Yield the files that `curl -O` and `wget` name after the address."""
    if call.verb in {"curl", "nscurl"} and not any(_BY_NAME.fullmatch(text) for text in call.texts):
        return
    for text in call.texts:
        name = posixpath.basename(text.partition("?")[0])
        if name and not text.startswith("-") and ("://" in text or "." in text):
            yield name
