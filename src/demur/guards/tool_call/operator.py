"""What an argument rule can look for: comparisons, texts, addresses, paths and SQL.

Comparisons never pass in silence: a value that cannot be compared counts as a hit, marked
`unjudged`. Operators that read texts look at every text at or below the argument, so that
wrapping a path in a list hides nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import re2

from demur.guards.tool_call.address import Address, addresses, bare_address, is_within
from demur.guards.tool_call.arguments import Part, texts
from demur.guards.tool_call.path import leaves
from demur.guards.tool_call.sql import sweeps
from demur.model.finding import Span

__all__ = ["Operator", "Sight", "Trust", "look", "value_problem"]

Operator = Literal[
    "contains",
    "eq",
    "gt",
    "gte",
    "host_not_in",
    "in",
    "longer_than",
    "lt",
    "lte",
    "matches",
    "metadata_address",
    "ne",
    "not_in",
    "outside_workspace",
    "present",
    "private_address",
    "starts_with",
    "sweeping_sql",
]


class Trust(NamedTuple):
    """The folders and hosts that the deployment trusts."""

    workspace: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


class Sight(NamedTuple):
    """A hit of a rule: the argument, the span within its text, and facts for the evidence."""

    place: str
    span: Span | None
    detail: str
    evidence: Mapping[str, Any]


def look(operator: Operator, part: Part, value: Any, trust: Trust) -> Iterator[Sight]:
    """Yield the hits of `operator` with `value` in one part of the arguments."""
    return _LOOKS[operator](part, value, trust)


def value_problem(operator: Operator, value: Any) -> str | None:
    """Return what is wrong with the value of a rule, or None."""
    fits, wanted = _VALUES.get(operator, (lambda _: True, ""))
    return None if fits(value) else f"`{operator}` needs {wanted}"


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


@lru_cache(maxsize=256)
def _pattern(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except (re2.error, UnicodeError):
        return None


def _whole(part: Part) -> Span | None:
    return Span(start=0, end=len(part.value)) if isinstance(part.value, str) else None


def _compared(holds: Callable[[Any, Any], bool]) -> Callable[..., Iterator[Sight]]:
    """Return an operator that hits a value for which `holds`, or that cannot be compared."""

    def look(part: Part, value: Any, _: Trust) -> Iterator[Sight]:
        try:
            hit, unjudged = holds(part.value, value), {}
        except TypeError:
            hit, unjudged = True, {"unjudged": True}
        if hit:
            yield Sight(part.place, _whole(part), "has a value that is not allowed", unjudged)

    return look


def _number(value: Any) -> float:
    # NaN cannot be compared with a limit.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - the test for NaN
        raise TypeError
    return value


def _length(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise TypeError
    return len(value)


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _among(one: Any, others: Any) -> bool:
    return any(_same(one, other) for other in others)


def _in_texts(find: Callable[[str, str], tuple[int, int] | None]) -> Callable[..., Iterator[Sight]]:
    """Return an operator that hits the span that `find` returns for a text."""

    def look(part: Part, value: str, _: Trust) -> Iterator[Sight]:
        for place, text in texts(part):
            if found := find(text, value):
                span = Span(start=found[0], end=found[1])
                yield Sight(place, span, "holds a text that is not allowed", {})

    return look


def _contained(text: str, value: str) -> tuple[int, int] | None:
    start = text.find(value)
    return None if start < 0 else (start, start + len(value))


def _started(text: str, value: str) -> tuple[int, int] | None:
    return (0, len(value)) if text.startswith(value) else None


def _matched(text: str, value: str) -> tuple[int, int] | None:
    # A lone surrogate cannot be encoded; replacing it keeps the places.
    found = _pattern(value).search(text.encode("utf-8", "replace").decode())
    return found.span() if found else None


def _hosts(part: Part) -> Iterator[tuple[str, Address]]:
    for place, text in texts(part):
        found = False
        for address in addresses(text):
            found = True
            yield place, address
        if not found and (bare := bare_address(text)):
            yield place, bare


def _egress(place: str, address: Address, detail: str) -> Sight:
    evidence = {"host": address.host[:100], "port": address.port, "reach": address.reach}
    return Sight(place, Span(start=address.start, end=address.end), detail, evidence)


def _metadata(part: Part, _value: Any, _trust: Trust) -> Iterator[Sight]:
    for place, address in _hosts(part):
        if address.reach == "metadata":
            yield _egress(place, address, "leads to a cloud's metadata service")


def _private(part: Part, _value: Any, trust: Trust) -> Iterator[Sight]:
    for place, address in _hosts(part):
        if address.reach == "private" and not is_within(address.host, trust.hosts):
            yield _egress(place, address, "leads into a private network")


def _foreign(part: Part, value: Any, _trust: Trust) -> Iterator[Sight]:
    for place, address in _hosts(part):
        if not is_within(address.host, tuple(value)):
            yield _egress(place, address, "leads to a host that is not listed")


def _outside(part: Part, value: Any, trust: Trust) -> Iterator[Sight]:
    workspaces = trust.workspace if value is None else tuple(value)
    if not workspaces:
        return
    for place, text in texts(part):
        if why := leaves(text, workspaces):
            evidence = {"allowed": list(workspaces)[:5], "why": why}
            span = Span(start=0, end=len(text))
            yield Sight(place, span, "is a path outside the workspace", evidence)


def _sweeping(part: Part, _value: Any, _trust: Trust) -> Iterator[Sight]:
    for place, text in texts(part):
        for sweep in sweeps(text):
            evidence = {"command": sweep.verb, "target": sweep.target, "why": sweep.why}
            span = Span(start=sweep.start, end=sweep.end)
            yield Sight(place, span, f"is a {sweep.verb} with {sweep.why}", evidence)


_LOOKS: dict[str, Callable[[Part, Any, Trust], Iterator[Sight]]] = {
    "contains": _in_texts(_contained),
    "eq": _compared(_same),
    "gt": _compared(lambda one, other: _number(one) > other),
    "gte": _compared(lambda one, other: _number(one) >= other),
    "host_not_in": _foreign,
    "in": _compared(_among),
    "longer_than": _compared(lambda one, other: _length(one) > other),
    "lt": _compared(lambda one, other: _number(one) < other),
    "lte": _compared(lambda one, other: _number(one) <= other),
    "matches": _in_texts(_matched),
    "metadata_address": _metadata,
    "ne": _compared(lambda one, other: not _same(one, other)),
    "not_in": _compared(lambda one, others: not _among(one, others)),
    "outside_workspace": _outside,
    "present": _compared(lambda _one, _other: True),
    "private_address": _private,
    "starts_with": _in_texts(_started),
    "sweeping_sql": _sweeping,
}
assert _LOOKS.keys() == set(get_args(Operator))
_NUMBER = (_is_number, "a number")
_TEXT = (_is_text, "a text")
_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "contains": _TEXT,
    "gt": _NUMBER,
    "gte": _NUMBER,
    "host_not_in": (_is_texts, "a list of hosts"),
    "in": (_is_list, "a list of values"),
    "longer_than": _NUMBER,
    "lt": _NUMBER,
    "lte": _NUMBER,
    "matches": (
        lambda value: _is_text(value) and _pattern(value) is not None,
        "a pattern that runs in linear time",
    ),
    "not_in": (_is_list, "a list of values"),
    "outside_workspace": (
        lambda value: value is None or _is_texts(value),
        "a list of folders, or nothing for the workspace of the config",
    ),
    "starts_with": _TEXT,
}
