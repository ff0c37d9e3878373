"""Tables of cases: requests, what guards saw in them, and what a policy must conclude."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from demur.codes.entry import Entry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface, Verdict
from demur.errors import ManyProblemsError
from demur.model.finding import Finding
from demur.policy.compiler import CompiledPolicy
from demur.policy.evaluation import Evaluation
from demur.policy.facts import ROOTS
from demur.policy.policy import Policy
from demur.source.item import Item
from demur.source.reading import read_source, read_text
from demur.source.suggest import did_you_mean

__all__ = [
    "Case",
    "CaseResult",
    "Difference",
    "TableError",
    "load_table",
    "parse_table",
    "run_table",
    "unmatched_rules",
]

_CASE = ("note", "request", "findings", "want")
_FINDING = ("code", "surface")
_REQUEST = ("schema_version", *(root for root in ROOTS if root != "findings"))
_LISTS = ("reason_codes", "matched_rules", "shadow_rules", "missing", "constraints")
_WANT = ("verdict", *_LISTS)


class TableError(ManyProblemsError):
    """A table of cases that is invalid."""


class Case(NamedTuple):
    """One request and the expected evaluation; `want` holds only the fields of the table."""

    note: str
    where: str
    request: Mapping[str, Any]
    findings: tuple[Finding, ...]
    want: Mapping[str, Any]


class Difference(NamedTuple):
    """One field that differs from the expected value."""

    field: str
    want: Any
    got: Any


class CaseResult(NamedTuple):
    """The evaluation of a case, and how it differs from the expected one."""

    case: Case
    evaluation: Evaluation
    differences: tuple[Difference, ...]


def load_table(path: Path | str, policy: Policy, registry: Registry) -> list[Case]:
    """Return the cases in the file at `path`, checked against the policy they are for.

    Raises:
        TableError: The file cannot be read or used; carries every problem.
    """
    return parse_table(read_text(path, "table", TableError), str(path), policy, registry)


def parse_table(text: str, name: str, policy: Policy, registry: Registry) -> list[Case]:
    """Return the cases written in `text`, called `name` in errors.

    Raises:
        TableError: It cannot be used; carries every problem.
    """
    source = read_source(name, text, TableError)
    cases = _Reader(policy, registry).cases(source)
    source.raise_problems(TableError)
    return cases


def run_table(compiled: CompiledPolicy, cases: Iterable[Case]) -> list[CaseResult]:
    """Run all cases and return their results."""
    return [_run(compiled, case) for case in cases]


def _run(compiled: CompiledPolicy, case: Case) -> CaseResult:
    evaluation = compiled.evaluate(case.request, case.findings)
    differences = tuple(
        Difference(field, want, got)
        for field, want in case.want.items()
        if not _same(want, got := getattr(evaluation, field))
    )
    return CaseResult(case, evaluation, differences)


def _same(want: Any, got: Any) -> bool:
    """Return whether two values agree, regardless of the order of a list."""
    return set(want) == set(got) if isinstance(want, tuple) else bool(want == got)


def unmatched_rules(policy: Policy, results: Iterable[CaseResult]) -> tuple[str, ...]:
    """Return the rules that matched in no case, shadow rules included."""
    seen = {
        rule_id
        for result in results
        for rule_id in (*result.evaluation.matched_rules, *result.evaluation.shadow_rules)
    }
    return tuple(rule.id for rule in policy.rules if rule.id not in seen)


class _Reader:
    def __init__(self, policy: Policy, registry: Registry) -> None:
        self._registry = registry
        self._rules: Mapping[str, Sequence[str]] = {
            "matched_rules": [rule.id for rule in policy.rules if not rule.shadow],
            "shadow_rules": [rule.id for rule in policy.rules if rule.shadow],
        }

    def cases(self, source: Item) -> list[Case]:
        if not isinstance(source.value, list) or not source.value:
            source.report("a table is a list of cases", "like `- note: …`")
            return []
        cases = [self._case(item) for item in source.value]
        notes: dict[str, str] = {}
        for item, case in zip(source.value, cases, strict=True):
            item.once(case.note, "the note", notes)
        return cases

    def _case(self, item: Item) -> Case:
        item.fields(_CASE, "a case")
        note = item.get("note")
        if note is None or not note.is_text:
            at = item if note is None else note
            at.report("a case needs a `note`, a text that says what it shows")
        return Case(
            note=str(note.value) if note is not None else "",
            where=item.where,
            request=_request(item.needed("request")),
            findings=tuple(self._findings(item)),
            want=self._want(item.needed("want")),
        )

    def _findings(self, case: Item) -> Iterator[Finding]:
        for child in case.items("findings"):
            code: Item | None = child
            if not isinstance(child.value, str):
                child.fields(_FINDING, "a finding")
                code = child.needed("code")
            surface = child.get("surface")
            entry = None if code is None else code.look_up(self._code)
            if entry is None:
                continue
            if surface is None:
                yield Finding(code=entry.code, surface=next(iter(entry.surfaces), Surface.POLICY))
            elif (seen := surface.one_of(Surface, "surface")) is not None:
                yield Finding(code=entry.code, surface=seen)

    def _code(self, code: Any) -> Entry:
        return self._registry[str(code)]

    def _want(self, item: Item | None) -> Mapping[str, Any]:
        if item is None:
            return {}
        fields = item.fields(_WANT, "`want`")
        want: dict[str, Any] = {}
        if isinstance(item.value, dict):
            want["verdict"] = item.word("verdict", Verdict)
            item.needed("reason_codes")
        for key in _LISTS:
            if key in fields:
                want[key] = tuple(self._texts(item, key))
        return want

    def _texts(self, want: Item, key: str) -> Iterator[str]:
        for child in want.texts(key, may_be_blank=True):
            if key == "reason_codes":
                if child.look_up(self._code) is not None:
                    yield child.value
            elif child.value in self._rules.get(key, (child.value,)):
                yield child.value
            else:
                problem = f"the policy has no such rule in `{key}`: `{child.value}`"
                child.report(problem, _which(child.value, self._rules[key]))


def _request(item: Item | None) -> Mapping[str, Any]:
    if item is None:
        return {}
    if item.get("findings") is not None:
        help_text = "put `findings` beside `request`"
        item.report_key("findings", "a request holds no findings", help_text)
    fields = item.fields((*_REQUEST, "findings"), "`request`")
    return {key: child.plain for key, child in fields.items()}


def _which(given: str, rules: Sequence[str]) -> str | None:
    """Return a suggestion for a rule id: the closest one, or all if there are few."""
    listed = f"one of {', '.join(rules)}" if 0 < len(rules) < 20 else None
    return did_you_mean(given, rules) or listed
