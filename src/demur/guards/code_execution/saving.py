"""Which files a call leaves behind, and what is known of what they hold."""

import posixpath
import re
from collections.abc import Iterator

from demur.guards.code_execution.call import Call, options
from demur.guards.code_execution.effects import Kind, effects
from demur.guards.code_execution.scope import Scope
from demur.guards.code_execution.value import UNKNOWN, Value

__all__ = ["saved"]

_COPIERS = frozenset({"cp", "mv", "install", "ln"})
_FETCHERS = frozenset({"curl", "wget", "aria2c", "axel", "nscurl"})
_WRITERS = _COPIERS | _FETCHERS | {"tee", "dd", "sponge"}
_BY_NAME = re.compile(r"-[a-zA-Z]*O[a-zA-Z]*|--remote-name")


def saved(call: Call, result: Value, scope: Scope) -> Iterator[tuple[str, Value, bool]]:
    """Yield each file that `call` writes: its path, its content, and whether it appends."""
    for write in call.writes:
        yield write.target.text, result, write.append
    if call.verb not in _WRITERS:
        return
    content = _content(call, result, scope)
    for effect in effects(call._replace(writes=(), reads=())):
        if effect.kind is Kind.WRITE:
            yield effect.target.text, content, effect.adds and call.verb == "tee"
    if call.verb in _FETCHERS:
        yield from ((name, result, False) for name in _named(call))


def _content(call: Call, result: Value, scope: Scope) -> Value:
    """Return the content of the files that a call names."""
    if call.verb in {"tee", "sponge"}:
        return call.stdin
    if call.verb in _COPIERS:
        operands = options(call.args).operands
        path = scope.path(operands[0].text) if operands else ""
        return scope.files.get(path, UNKNOWN._replace(taints=result.taints))
    return result


def _named(call: Call) -> Iterator[str]:
    """Yield the files that `curl -O` and `wget` name after the address."""
    if call.verb in {"curl", "nscurl"} and not any(_BY_NAME.fullmatch(text) for text in call.texts):
        return
    for text in call.texts:
        name = posixpath.basename(text.partition("?")[0])
        if name and not text.startswith("-") and ("://" in text or "." in text):
            yield name
