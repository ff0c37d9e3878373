"""Tables of cases: requests, what guards saw in them, and what a policy must conclude."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from demur.codes.registry import Registry
from demur.codes.suggest import did_you_mean
from demur.codes.vocabulary import Surface, Verdict
from demur.errors import ManyProblemsError, Problem
from demur.model.finding import Finding
from demur.policy.compiler import CompiledPolicy
from demur.policy.evaluation import Evaluation
from demur.policy.facts import ROOTS
from demur.policy.policy import Policy
from demur.source import Item, SourceError, read_source, read_text

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
_NEEDED = ("verdict", "reason_codes")
_LISTS = ("reason_codes", "matched_rules", "shadow_rules", "missing", "constraints")
_WANT = ("verdict", *_LISTS)


class TableError(ManyProblemsError):
    """A table of cases that cannot be used."""


class Case(NamedTuple):
    """One request and what must come of it; `want` holds only what the table asks for."""

    note: str
    where: str
    request: Mapping[str, Any]
    findings: tuple[Finding, ...]
    want: Mapping[str, Any]


class Difference(NamedTuple):
    """One thing that is not as wanted."""

    field: str
    want: Any
    got: Any


class CaseResult(NamedTuple):
    """What the policy concluded about a case, and how that differs from what was wanted."""

    case: Case
    evaluation: Evaluation
    differences: tuple[Difference, ...]


def load_table(path: Path | str, policy: Policy, registry: Registry) -> list[Case]:
    """Return the cases in the file at `path`, checked against the policy they are for.

    Raises:
        TableError: The file cannot be read or used; carries every problem.
    """
    try:
        text = read_text(path, "table")
    except SourceError as error:
        raise TableError.of(error.problems) from error
    return parse_table(text, str(path), policy, registry)


def parse_table(text: str, name: str, policy: Policy, registry: Registry) -> list[Case]:
    """Return the cases written in `text`, called `name` in errors.

    Raises:
        TableError: It cannot be used; carries every problem.
    """
    try:
        source = read_source(name, text)
    except SourceError as error:
        raise TableError.of(error.problems) from error
    reader = _Reader(policy, registry)
    cases = reader.cases(source)
    if reader.problems:
        raise TableError.of(reader.problems)
    return cases


def run_table(compiled: CompiledPolicy, cases: Iterable[Case]) -> list[CaseResult]:
    """Return how each case went."""
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
    """Return whether two values agree; the order of a list means nothing."""
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
        self.problems: list[Problem] = []
        self._registry = registry
        self._known: Mapping[str, Sequence[str]] = {
            "reason_codes": [entry.code for entry in registry],
            "matched_rules": [rule.id for rule in policy.rules if not rule.shadow],
            "shadow_rules": [rule.id for rule in policy.rules if rule.shadow],
        }

    def report(self, where: str, problem: str, help_text: str | None = None) -> None:
        self.problems.append(Problem(where, problem, help_text))

    def cases(self, source: Item) -> list[Case]:
        if not isinstance(source.value, list) or not source.value:
            self.report(source.where, "a table is a list of cases", "like `- note: …`")
            return []
        cases = [self._case(item) for item in source.value]
        first: dict[str, str] = {}
        for case in cases:
            if case.note and case.note in first:
                place = f"first at {first[case.note]}"
                self.report(case.where, f"the note `{case.note}` stands twice", place)
            first.setdefault(case.note, case.where)
        return cases

    def _fields(self, item: Item, known: Sequence[str], what: str) -> Mapping[str, Item]:
        if not isinstance(item.value, dict):
            self.report(item.where, f"{what} is a mapping")
            return {}
        for key, where in item.keys.items():
            if key not in known:
                self._unknown(where, f"unknown key `{key}`", key, known)
        return item.value

    def _unknown(self, where: str, problem: str, given: str, known: Sequence[str]) -> None:
        listed = f"one of {', '.join(known)}" if 0 < len(known) < 20 else None
        self.report(where, problem, did_you_mean(given, known) or listed)

    def _case(self, item: Item) -> Case:
        fields = self._fields(item, _CASE, "a case")
        note = fields.get("note")
        if note is None or not isinstance(note.value, str) or not note.value.strip():
            where = item.where if note is None else note.where
            self.report(where, "a case needs a `note`, a text that says what it shows")
        return Case(
            note=str(note.value) if note is not None else "",
            where=item.where,
            request=self._request(fields.get("request"), item),
            findings=tuple(self._findings(fields.get("findings"))),
            want=self._want(fields.get("want"), item),
        )

    def _request(self, item: Item | None, parent: Item) -> Mapping[str, Any]:
        if item is None:
            self.report(parent.where, "`request` is missing")
            return {}
        if isinstance(item.value, dict) and "findings" in item.value:
            help_text = "put `findings` beside `request`"
            self.report(item.keys["findings"], "a request holds no findings", help_text)
        known = (*_REQUEST, "findings")
        return {key: child.plain for key, child in self._fields(item, known, "`request`").items()}

    def _list(self, item: Item, what: str) -> list[Item]:
        if isinstance(item.value, list):
            return item.value
        self.report(item.where, f"`{what}` is a list")
        return []

    def _findings(self, item: Item | None) -> Iterator[Finding]:
        for child in self._list(item, "findings") if item is not None else []:
            bare = isinstance(child.value, str)
            fields = {"code": child} if bare else self._fields(child, _FINDING, "a finding")
            if "code" not in fields:
                self.report(child.where, "`code` is missing")
                continue
            code, surface = fields["code"], fields.get("surface")
            entry = self._registry.get(str(code.value))
            if entry is None:
                self._unknown_code(code)
            elif surface is None:
                yield Finding(code=entry.code, surface=next(iter(entry.surfaces), Surface.POLICY))
            elif surface.value in list(Surface):
                yield Finding(code=entry.code, surface=Surface(surface.value))
            else:
                given = str(surface.value)
                self._unknown(surface.where, f"unknown surface `{given}`", given, list(Surface))

    def _unknown_code(self, item: Item) -> None:
        known = self._known["reason_codes"]
        self._unknown(item.where, f"unknown reason code `{item.value}`", str(item.value), known)

    def _want(self, item: Item | None, parent: Item) -> Mapping[str, Any]:
        if item is None:
            self.report(parent.where, "`want` is missing")
            return {}
        fields = self._fields(item, _WANT, "`want`")
        for key in _NEEDED:
            if key not in fields and isinstance(item.value, dict):
                self.report(item.where, f"`{key}` is missing")
        want: dict[str, Any] = {}
        if "verdict" in fields:
            want["verdict"] = self._verdict(fields["verdict"])
        for key in _LISTS:
            if key in fields:
                want[key] = tuple(self._texts(fields[key], key))
        return want

    def _verdict(self, item: Item) -> Verdict | None:
        if item.value in list(Verdict):
            return Verdict(item.value)
        given = str(item.value)
        self._unknown(item.where, f"unknown verdict `{given}`", given, list(Verdict))
        return None

    def _texts(self, item: Item, what: str) -> Iterator[str]:
        known = self._known.get(what)
        for child in self._list(item, what):
            if not isinstance(child.value, str):
                self.report(child.where, f"`{what}` holds texts", "quote it")
            elif known is not None and child.value not in known:
                if what == "reason_codes":
                    self._unknown_code(child)
                else:
                    problem = f"the policy has no such rule in `{what}`: `{child.value}`"
                    self._unknown(child.where, problem, child.value, known)
            else:
                yield child.value
