"""Rules for arguments as data: paths to look at, an operator, and the code of the finding.

A rule says what must not be: the guard reports a finding where its operator holds. A value that
cannot be compared counts as a hit, marked `unjudged`. Operators that read texts look at every
text at or below the argument, so wrapping a path in a list hides nothing.

Paths are judged by their letters alone: a link inside the workspace that points elsewhere is
not seen, so the program that opens the file must refuse to follow links. `..`, a home folder, a
variable, a drive letter, percent-encoding, a null byte and a `file:` address are all seen.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from posixpath import isabs, join, normpath
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import unquote

import msgspec
import re2

from demur.codes.reason_code import ReasonCode
from demur.errors import InputError
from demur.guards.network_address import (
    NetworkAddress,
    find_addresses,
    is_within_domains,
    parse_bare_address,
)
from demur.guards.sql import find_host_access, find_sweeps
from demur.guards.tool_arguments import ArgumentPart, find_named, find_texts, select_parts
from demur.model.finding import Action, Span

_DRIVE = re2.compile(r"(?i)^[a-z]:")
_VARIABLE = re2.compile(r"^(?:~|\$\{?\w|%\pL\w*%)")
_SCHEME = re2.compile(r"(?i)^file:(?://[^/]*)?")
_URL = re2.compile(r"(?i)^[a-z][a-z0-9+.\-]+://")


def outside_reason(path: str, workspaces: Sequence[str]) -> str | None:
    """Return why `path` is not inside one of `workspaces`, or None if it is.

    The first workspace is where a relative path starts.
    """
    text = path.encode("utf-8", "replace").decode()
    if "\0" in text or "%00" in text:
        return "it holds a null byte"
    if _URL.match(text) and not _SCHEME.match(text):
        return None
    text = _SCHEME.sub("", text, count=1)
    if _VARIABLE.match(text):
        return "it starts at a home folder or variable"
    for form in {text, unquote(text)}:
        if reason := _path_outside_reason(form.replace("\\", "/"), workspaces):
            return reason
    return None


def _path_outside_reason(path: str, workspaces: Sequence[str]) -> str | None:
    roots = [normpath(root.replace("\\", "/")) for root in workspaces]
    drives = [root for root in roots if _DRIVE.match(root)]
    if _DRIVE.match(path):
        if any(_is_below(normpath(path).casefold(), root.casefold()) for root in drives):
            return None
        return "it is outside the workspace"
    whole = normpath(path) if isabs(path) else normpath(join(roots[0], path))
    # Some programs read two leading slashes as another machine.
    if whole.startswith("//") or not any(_is_below(whole, root) for root in roots):
        return "it is outside the workspace"
    return None


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root.rstrip('/')}/")


Operator = Literal[
    "contains",
    "eq",
    "gt",
    "gte",
    "host_access_sql",
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


class TrustedTargets(NamedTuple):
    """The folders and hosts that the deployment trusts."""

    workspace: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


class ArgumentHit(NamedTuple):
    """A hit of a rule: the argument, the span within its text, and facts for the evidence."""

    place: str
    span: Span | None
    detail: str
    evidence: Mapping[str, Any]


_Operator = Callable[[ArgumentPart, Any, TrustedTargets], Iterator[ArgumentHit]]
_AddressTest = Callable[[NetworkAddress, Any, TrustedTargets], bool]


def apply_operator(
    operator: Operator, part: ArgumentPart, value: Any, trust: TrustedTargets
) -> Iterator[ArgumentHit]:
    """Yield the hits of `operator` with `value` in one part of the arguments."""
    return _OPERATORS[operator](part, value, trust)


def find_value_problem(operator: Operator, value: Any) -> str | None:
    """Return what is wrong with the value of a rule, or None."""
    fits, expected = _VALUES.get(operator, (lambda _: True, ""))
    return None if fits(value) else f"`{operator}` needs {expected}"


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


@lru_cache(maxsize=256)
def _compile_pattern(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except (re2.error, UnicodeError):
        return None


def _compare_operator(holds: Callable[[Any, Any], bool]) -> _Operator:
    """Return an operator that hits a value for which `holds`, or that cannot be compared."""

    def compare(part: ArgumentPart, value: Any, _: TrustedTargets) -> Iterator[ArgumentHit]:
        try:
            hit, unjudged = holds(part.value, value), {}
        except TypeError:
            hit, unjudged = True, {"unjudged": True}
        if hit:
            span = Span(start=0, end=len(part.value)) if isinstance(part.value, str) else None
            yield ArgumentHit(part.place, span, "has a value that is not allowed", unjudged)

    return compare


def _require_number(value: Any) -> float:
    # NaN cannot be compared with a limit.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - the test for NaN
        raise TypeError
    return value


def _require_length(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise TypeError
    return len(value)


def _is_equal(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _is_among(one: Any, others: Any) -> bool:
    return any(_is_equal(one, other) for other in others)


def _text_operator(find: Callable[[str, str], tuple[int, int] | None]) -> _Operator:
    """Return an operator that hits the span that `find` returns for a text."""

    def search(part: ArgumentPart, value: str, _: TrustedTargets) -> Iterator[ArgumentHit]:
        for place, text in find_texts(part):
            if found := find(text, value):
                span = Span(start=found[0], end=found[1])
                yield ArgumentHit(place, span, "holds a text that is not allowed", {})

    return search


def _find_pattern(text: str, value: str) -> tuple[int, int] | None:
    # A lone surrogate cannot be encoded; replacing it keeps the places.
    found = _compile_pattern(value).search(text.encode("utf-8", "replace").decode())
    return found.span() if found else None


def _address_operator(holds: _AddressTest, detail: str) -> _Operator:
    """Return an operator that hits an address for which `holds`."""

    def search(part: ArgumentPart, value: Any, trust: TrustedTargets) -> Iterator[ArgumentHit]:
        for place, text in find_texts(part):
            addresses: list[NetworkAddress | None] = [*find_addresses(text)]
            for address in addresses or [parse_bare_address(text)]:
                if address and holds(address, value, trust):
                    host, port, start, end, reach = address
                    evidence = {"host": host[:100], "port": port, "reach": reach}
                    yield ArgumentHit(place, Span(start=start, end=end), detail, evidence)

    return search


def _outside_paths(part: ArgumentPart, value: Any, trust: TrustedTargets) -> Iterator[ArgumentHit]:
    workspaces = trust.workspace if value is None else tuple(value)
    for place, text in find_texts(part) if workspaces else ():
        if why := outside_reason(text, workspaces):
            evidence = {"allowed": list(workspaces)[:5], "why": why}
            span = Span(start=0, end=len(text))
            yield ArgumentHit(place, span, "is a path outside the workspace", evidence)


def _sweeping_sql(part: ArgumentPart, _value: Any, _trust: TrustedTargets) -> Iterator[ArgumentHit]:
    for place, text in find_texts(part):
        for sweep in find_sweeps(text):
            evidence = {"command": sweep.verb, "target": sweep.target, "why": sweep.why}
            span = Span(start=sweep.start, end=sweep.end)
            yield ArgumentHit(place, span, f"is a {sweep.verb} with {sweep.why}", evidence)


def _host_access_sql(
    part: ArgumentPart, value: Any, _trust: TrustedTargets
) -> Iterator[ArgumentHit]:
    for place, text in find_texts(part):
        for access in find_host_access(text):
            if value is None or access.reach == value:
                evidence = {"command": access.name, "reach": access.reach}
                span = Span(start=access.start, end=access.end)
                detail = f"reaches a {access.reach} on the database's machine"
                yield ArgumentHit(place, span, detail, evidence)


_OPERATORS: dict[str, _Operator] = {
    "contains": _text_operator(
        lambda text, value: (at, at + len(value)) if (at := text.find(value)) >= 0 else None
    ),
    "eq": _compare_operator(_is_equal),
    "gt": _compare_operator(lambda one, other: _require_number(one) > other),
    "gte": _compare_operator(lambda one, other: _require_number(one) >= other),
    "host_access_sql": _host_access_sql,
    "host_not_in": _address_operator(
        lambda address, value, _: not is_within_domains(address.host, tuple(value)),
        "leads to a host that is not listed",
    ),
    "in": _compare_operator(_is_among),
    "longer_than": _compare_operator(lambda one, other: _require_length(one) > other),
    "lt": _compare_operator(lambda one, other: _require_number(one) < other),
    "lte": _compare_operator(lambda one, other: _require_number(one) <= other),
    "matches": _text_operator(_find_pattern),
    "metadata_address": _address_operator(
        lambda address, *_: address.reach == "metadata", "leads to a cloud's metadata service"
    ),
    "ne": _compare_operator(lambda one, other: not _is_equal(one, other)),
    "not_in": _compare_operator(lambda one, others: not _is_among(one, others)),
    "outside_workspace": _outside_paths,
    "present": _compare_operator(lambda _one, _other: True),
    "private_address": _address_operator(
        lambda address, _, trust: (
            address.reach == "private" and not is_within_domains(address.host, trust.hosts)
        ),
        "leads into a private network",
    ),
    "starts_with": _text_operator(
        lambda text, value: (0, len(value)) if text.startswith(value) else None
    ),
    "sweeping_sql": _sweeping_sql,
}
assert _OPERATORS.keys() == set(get_args(Operator))
_Fits = tuple[Callable[[Any], bool], str]
_NUMBER: _Fits = (lambda x: isinstance(x, int | float) and not isinstance(x, bool), "a number")
_TEXT: _Fits = (lambda value: isinstance(value, str) and value != "", "a text")
_LIST: _Fits = (lambda value: isinstance(value, list | tuple), "a list of values")
_VALUES: dict[str, _Fits] = {
    **dict.fromkeys(("contains", "starts_with"), _TEXT),
    **dict.fromkeys(("gt", "gte", "longer_than", "lt", "lte"), _NUMBER),
    **dict.fromkeys(("in", "not_in"), _LIST),
    "host_access_sql": (
        lambda value: value in (None, "program", "file"),
        "`program`, `file`, or nothing for both",
    ),
    "host_not_in": (_is_texts, "a list of hosts"),
    "matches": (
        lambda value: _TEXT[0](value) and _compile_pattern(value) is not None,
        "a pattern that runs in linear time",
    ),
    "outside_workspace": (
        lambda value: value is None or _is_texts(value),
        "a list of folders, or nothing for the workspace of the config",
    ),
}


class ArgumentRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that arguments must not be.

    `paths` lead into the arguments (`url`, `files.*.path`, `**.sql`), `tools` are names or
    patterns such as `db_*`. The code follows from the operator unless the rule names another.
    """

    id: str
    paths: tuple[str, ...]
    operator: Operator
    value: Any = None
    tools: tuple[str, ...] = ("*",)
    action: Action = Action.BLOCK
    code: str | None = None

    def __post_init__(self) -> None:
        if not re2.fullmatch(r"[A-Z][A-Z0-9_]{1,62}", self.id):
            raise InputError(f"a rule's id is like `OUTSIDE_WORKSPACE`, not `{self.id[:40]}`")
        if not self.paths or not self.tools:
            raise InputError("a rule needs paths and tools", where=self.id)
        for path in self.paths:
            steps = path.split(".")
            if not all(steps) or "**" in steps[1:] or steps == ["**"] or len(steps) > 20:
                problem = f"`{path[:60]}` is no path"
                raise InputError(problem, where=self.id, help="like `files.*.path` or `**.sql`")
        if wrong := find_value_problem(self.operator, self.value):
            raise InputError(wrong, where=self.id)

    @property
    def reason(self) -> str:
        """The code of its findings."""
        return self.code or _CODES.get(self.operator, ReasonCode.TOOL_NOT_ALLOWED)


def read_argument_rules(rows: Iterable[Mapping[str, Any]]) -> tuple[ArgumentRule, ...]:
    """Return the rules in `rows`, as a YAML or JSON file holds them.

    Raises:
        InputError: A row is no rule, or two have one id.
    """
    rules = []
    for index, row in enumerate(rows):
        try:
            rules.append(msgspec.convert(row, ArgumentRule))
        except msgspec.ValidationError as error:
            # demur's own errors already name the place; msgspec's name the field.
            if isinstance(error.__cause__, InputError):
                raise error.__cause__ from None
            raise InputError(f"not a rule: {error}", where=f"rule {index}") from error
    ids = [rule.id for rule in rules]
    if twice := [name for name in ids if ids.count(name) > 1]:
        raise InputError("two rules have this id", where=twice[0])
    return tuple(rules)


def apply_rule(
    rule: ArgumentRule, tool: str, arguments: Mapping[str, Any], trust: TrustedTargets
) -> Iterator[ArgumentHit]:
    """Yield the hits of `rule` in the arguments of `tool`, each once."""
    if not any(fnmatchcase(tool, pattern) for pattern in rule.tools):
        return
    reported: set[tuple[str, Span | None]] = set()
    for part in _select_parts(rule.paths, arguments):
        for hit in apply_operator(rule.operator, part, rule.value, trust):
            # Several paths, or one with `**`, can lead to the same text.
            if (hit.place, hit.span) not in reported:
                reported.add((hit.place, hit.span))
                yield hit


def _select_parts(paths: tuple[str, ...], arguments: Mapping[str, Any]) -> Iterator[ArgumentPart]:
    """Yield the parts that `paths` lead to; all names that may stand anywhere in one walk."""
    anywhere = [path for path in paths if path.startswith("**.") and path.count(".") == 1]
    names = [path[3:] for path in anywhere if path != "**.*"]
    if names:
        yield from find_named(arguments, names)
    for path in paths:
        if path[3:] not in names or not path.startswith("**."):
            yield from select_parts(arguments, path)


_CODES = {
    **dict.fromkeys(
        ("host_not_in", "metadata_address", "private_address"), ReasonCode.EGRESS_DENIED
    ),
    "host_access_sql": ReasonCode.RCE_RISK,
    "sweeping_sql": ReasonCode.UNAPPROVED_DESTRUCTION,
}
_PATHS = ("cwd", "dir", "directory", "file", "file_path", "filename", "folder", "path", "paths")
_PLACES = tuple(f"**.{name}" for name in _PATHS)
_SQL = tuple(f"**.{name}" for name in ("query", "sql", "statement", "statements"))
# Private addresses are ordinary in development, so they are recorded. A sweep may be intended,
# so it goes to a person. No task needs the credentials of a metadata service.
DEFAULT_ARGUMENT_RULES = (
    ArgumentRule(id="METADATA_ADDRESS", paths=("*",), operator="metadata_address"),
    ArgumentRule(
        id="PRIVATE_ADDRESS", paths=("*",), operator="private_address", action=Action.WARN
    ),
    ArgumentRule(id="OUTSIDE_WORKSPACE", paths=_PLACES, operator="outside_workspace"),
    ArgumentRule(id="SWEEPING_SQL", paths=_SQL, operator="sweeping_sql", action=Action.ESCALATE),
    ArgumentRule(id="SQL_HOST", paths=_SQL, operator="host_access_sql", action=Action.ESCALATE),
)
