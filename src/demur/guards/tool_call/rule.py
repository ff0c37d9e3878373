"""Rules for arguments as data: where to look, what to look for, and what to say.

A rule says what must not be: a finding is made where its operator holds.
"""

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec
import re2

from demur.codes.reason_code import ReasonCode
from demur.errors import InputError
from demur.guards.tool_call.arguments import ArgumentPart, find_named, select_parts
from demur.guards.tool_call.operator import (
    Operator,
    ArgumentHit,
    TrustedTargets,
    apply_operator,
    find_value_problem,
)
from demur.model.finding import Action, Span

__all__ = ["DEFAULT_ARGUMENT_RULES", "ArgumentRule", "apply_rule", "read_argument_rules"]


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
    for name in ids:
        if ids.count(name) > 1:
            raise InputError("two rules have this id", where=name)
    return tuple(rules)


def apply_rule(
    rule: ArgumentRule, tool: str, arguments: Mapping[str, Any], trust: TrustedTargets
) -> Iterator[ArgumentHit]:
    """Yield the hits of `rule` in the arguments of `tool`, each once."""
    if not any(fnmatchcase(tool, pattern) for pattern in rule.tools):
        return
    seen: set[tuple[str, Span | None]] = set()
    for part in _select_parts(rule.paths, arguments):
        for sight in apply_operator(rule.operator, part, rule.value, trust):
            # Several paths, or one with `**`, can lead to the same text.
            if (sight.place, sight.span) not in seen:
                seen.add((sight.place, sight.span))
                yield sight


def _select_parts(paths: tuple[str, ...], arguments: Mapping[str, Any]) -> Iterator[ArgumentPart]:
    """Yield the parts that `paths` lead to; all names that may stand anywhere in one walk."""
    names = [path[3:] for path in paths if path.startswith("**.") and _is_name(path[3:])]
    if names:
        yield from find_named(arguments, names)
    for path in paths:
        if path[3:] not in names or not path.startswith("**."):
            yield from select_parts(arguments, path)


def _is_name(step: str) -> bool:
    return "." not in step and step != "*"


_CODES = {
    "host_not_in": ReasonCode.EGRESS_DENIED,
    "metadata_address": ReasonCode.EGRESS_DENIED,
    "private_address": ReasonCode.EGRESS_DENIED,
    "sweeping_sql": ReasonCode.DESTRUCTIVE_ACTION,
}
_PATHS = ("cwd", "dir", "directory", "file", "file_path", "filename", "folder", "path", "paths")
_STATEMENTS = ("query", "sql", "statement", "statements")
# Private addresses are ordinary in development, so they are recorded. A sweep may be intended,
# so it goes to a person. No task needs the credentials of a metadata service.
DEFAULT_ARGUMENT_RULES = (
    ArgumentRule(
        id="METADATA_ADDRESS", paths=("*",), operator="metadata_address", action=Action.BLOCK
    ),
    ArgumentRule(
        id="PRIVATE_ADDRESS", paths=("*",), operator="private_address", action=Action.WARN
    ),
    ArgumentRule(
        id="OUTSIDE_WORKSPACE",
        paths=tuple(f"**.{name}" for name in _PATHS),
        operator="outside_workspace",
    ),
    ArgumentRule(
        id="SWEEPING_SQL",
        paths=tuple(f"**.{name}" for name in _STATEMENTS),
        operator="sweeping_sql",
        action=Action.ESCALATE,
    ),
)
