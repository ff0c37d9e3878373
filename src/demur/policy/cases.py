"""Test a policy: requests, findings, and the evaluation that each case expects."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from demur.codes.entry import Entry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface, Verdict
from demur.errors import ManyProblemsError
from demur.model.finding import Finding
from demur.policy.evaluation import CompiledPolicy, Evaluation
from demur.policy.facts import ROOTS
from demur.policy.policy import Policy
from demur.source.item import SourceItem, did_you_mean
from demur.source.reading import read_source, read_text

_CASE = ("note", "request", "findings", "signals", "want")
_FINDING = ("code", "surface")
_BESIDE = ("findings", "signals")
_REQUEST = ("schema_version", *(root for root in ROOTS if root not in _BESIDE))
_LISTS = ("reason_codes", "matched_rules", "shadow_rules", "missing", "constraints")
_WANT = ("verdict", *_LISTS)


class CaseTableError(ManyProblemsError):
    """A table of cases that is invalid."""


class PolicyCase(NamedTuple):
    """One request and the expected evaluation; `want` holds only the fields of the table."""

    note: str
    where: str
    request: Mapping[str, Any]
    findings: tuple[Finding, ...]
    want: Mapping[str, Any]
    signals: Mapping[str, Any] = {}


class CaseDifference(NamedTuple):
    """One field that differs from the expected value."""

    field: str
    want: Any
    got: Any


class CaseResult(NamedTuple):
    """The evaluation of a case, and how it differs from the expected one."""

    case: PolicyCase
    evaluation: Evaluation
    differences: tuple[CaseDifference, ...]


def load_cases(path: Path | str, policy: Policy, registry: Registry) -> list[PolicyCase]:
    """Return the cases in the file at `path`, checked against the policy they are for.

    Raises:
        TableError: demur cannot read or use the file; carries every problem.
    """
    return parse_cases(read_text(path, "table", CaseTableError), str(path), policy, registry)


def parse_cases(text: str, name: str, policy: Policy, registry: Registry) -> list[PolicyCase]:
    """Return the cases written in `text`, called `name` in errors.

    Raises:
        TableError: demur cannot use it; carries every problem.
    """
    source = read_source(name, text, CaseTableError)
    cases = _CaseReader(policy, registry).read_cases(source)
    source.raise_problems(CaseTableError)
    return cases


def run_cases(compiled: CompiledPolicy, cases: Iterable[PolicyCase]) -> list[CaseResult]:
    """Run all cases and return their results."""
    return [_run_case(compiled, case) for case in cases]


def _run_case(compiled: CompiledPolicy, case: PolicyCase) -> CaseResult:
    evaluation = compiled.evaluate(case.request, case.findings, case.signals)
    differences = tuple(
        CaseDifference(field, want, got)
        for field, want in case.want.items()
        if not _values_agree(want, got := getattr(evaluation, field))
    )
    return CaseResult(case, evaluation, differences)


def _values_agree(want: Any, got: Any) -> bool:
    """Return whether two values agree, regardless of the order of a list."""
    return set(want) == set(got) if isinstance(want, tuple) else bool(want == got)


def unmatched_rules(policy: Policy, results: Iterable[CaseResult]) -> tuple[str, ...]:
    """Return the rules that matched in no case, shadow rules included."""
    found = (result.evaluation for result in results)
    seen = {name for one in found for name in (*one.matched_rules, *one.shadow_rules)}
    return tuple(rule.id for rule in policy.rules if rule.id not in seen)


class _CaseReader:
    def __init__(self, policy: Policy, registry: Registry) -> None:
        self._registry = registry
        self._rules: Mapping[str, Sequence[str]] = {
            "matched_rules": [rule.id for rule in policy.rules if not rule.shadow],
            "shadow_rules": [rule.id for rule in policy.rules if rule.shadow],
        }

    def read_cases(self, source: SourceItem) -> list[PolicyCase]:
        if not isinstance(source.value, list) or not source.value:
            source.report("a table is a list of cases", "like `- note: …`")
            return []
        cases = [self._read_case(item) for item in source.value]
        notes: dict[str, str] = {}
        for item, case in zip(source.value, cases, strict=True):
            item.report_duplicate(case.note, "the note", notes)
        return cases

    def _read_case(self, item: SourceItem) -> PolicyCase:
        item.as_fields(_CASE, "a case")
        note = item.get("note")
        if note is None or not note.is_text:
            at = item if note is None else note
            at.report("a case needs a `note`, a text that says what it shows")
        return PolicyCase(
            note=str(note.value) if note is not None else "",
            where=item.where,
            request=_read_request(item.require_item("request")),
            findings=tuple(self._read_findings(item)),
            want=self._read_expectation(item.require_item("want")),
            signals={key: child.plain_value for key, child in item.read_entries("signals").items()},
        )

    def _read_findings(self, case: SourceItem) -> Iterator[Finding]:
        for child in case.list_items("findings"):
            code: SourceItem | None = child
            if not isinstance(child.value, str):
                child.as_fields(_FINDING, "a finding")
                code = child.require_item("code")
            surface = child.get("surface")
            entry = None if code is None else code.look_up(self._look_up_code)
            if entry is None:
                continue
            if surface is None:
                yield Finding(code=entry.code, surface=next(iter(entry.surfaces), Surface.POLICY))
            elif (seen := surface.match_word(Surface, "surface")) is not None:
                yield Finding(code=entry.code, surface=seen)

    def _look_up_code(self, code: Any) -> Entry:
        return self._registry[str(code)]

    def _read_expectation(self, item: SourceItem | None) -> Mapping[str, Any]:
        if item is None:
            return {}
        fields = item.as_fields(_WANT, "`want`")
        want: dict[str, Any] = {}
        if isinstance(item.value, dict):
            want["verdict"] = item.require_word("verdict", Verdict)
            item.require_item("reason_codes")
        for key in _LISTS:
            if key in fields:
                want[key] = tuple(self._read_texts(item, key))
        return want

    def _read_texts(self, want: SourceItem, key: str) -> Iterator[str]:
        for child in want.list_texts(key, allow_blank=True):
            if key == "reason_codes":
                if child.look_up(self._look_up_code) is not None:
                    yield child.value
            elif child.value in self._rules.get(key, (child.value,)):
                yield child.value
            else:
                problem = f"the policy has no such rule in `{key}`: `{child.value}`"
                rules = self._rules[key]
                listed = f"one of {', '.join(rules)}" if 0 < len(rules) < 20 else None
                child.report(problem, did_you_mean(child.value, rules) or listed)


def _read_request(item: SourceItem | None) -> Mapping[str, Any]:
    if item is None:
        return {}
    for key in _BESIDE:
        if item.get(key) is not None:
            item.report_key(key, f"a request holds no {key}", f"put `{key}` beside `request`")
    fields = item.as_fields((*_REQUEST, *_BESIDE), "`request`")
    return {key: child.plain_value for key, child in fields.items()}
