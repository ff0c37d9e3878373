"""Load a policy and report every problem at once, with file, line, column and help."""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TypeGuard

from demur.canonical import digest
from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Effect, Obligation, RefusalClass, Verdict
from demur.errors import InputError, PolicyError
from demur.policy.conditions import ConditionReader, absences, reads_findings
from demur.policy.policy import (
    Condition,
    Mode,
    Outcome,
    Policy,
    Rule,
    Shadow,
    Stage,
)
from demur.source.item import Item
from demur.source.reading import read_source, read_text

__all__ = ["load_policy", "parse_policy"]

SCHEMA_VERSION = "policy.v1"

_TOP = (
    "schema_version",
    "policy_id",
    "policy_version",
    "description",
    "mode",
    "defaults",
    "rates",
    "shadow",
    "rules",
)
_RULE = ("id", "stage", "description", "shadow", "if", "then")
_THEN = ("verdict", "reason_codes", "constraints", "missing", "obligations")
_VERDICTS = {
    Stage.REQUIREMENTS: (Verdict.DENY, Verdict.ABSTAIN, Verdict.ESCALATE),
    Stage.HARD_BLOCKS: (Verdict.DENY,),
    Stage.ESCALATIONS: (Verdict.ESCALATE,),
    Stage.ALLOW_PATHS: (Verdict.ALLOW,),
}
_DEFAULT = Outcome(Verdict.ESCALATE, ("NO_MATCH_DEFAULT_ESCALATE",))
_CURRENCY = re.compile(r"[A-Z]{3}\Z")


def load_policy(path: Path | str, *, registry: Registry | None = None) -> Policy:
    """Return the policy in the file at `path`.

    Raises:
        PolicyError: The file cannot be read or used; carries every problem.
    """
    return parse_policy(read_text(path, "policy", PolicyError), str(path), registry=registry)


def parse_policy(text: str, name: str = "policy", *, registry: Registry | None = None) -> Policy:
    """Return the policy written in `text`, called `name` in errors.

    Raises:
        PolicyError: It cannot be used; carries every problem.
    """
    known = default_registry() if registry is None else registry
    source = read_source(name, text, PolicyError)
    policy = _Loader(name, known).policy(source, text)
    source.raise_problems(PolicyError)
    return policy


def _is(item: Item | None, words: type[StrEnum]) -> TypeGuard[Item]:
    return item is not None and item.value in list(words)


class _Loader:
    def __init__(self, name: str, registry: Registry) -> None:
        self.name = name
        self.registry = registry
        self.conditions = ConditionReader(registry)

    def policy(self, source: Item, text: str) -> Policy:
        """Return the policy. It must not be used if problems were reported."""
        source.fields(_TOP, "a policy")
        source.version(SCHEMA_VERSION)
        source.optional_text("description")
        rules = tuple(self._rules(source))
        shadows = tuple(self._shadows(source))
        default = self._default(source.get("defaults"))
        return Policy(
            policy_id=source.text("policy_id"),
            policy_version=source.text("policy_version"),
            mode=source.word_or("mode", Mode.ENFORCE),
            default=default,
            rates=_rates(source),
            shadows=shadows,
            rules=tuple(sorted(rules, key=lambda rule: list(Stage).index(rule.stage))),
            digest=_digest(source),
            where=self.name,
            text=text,
        )

    def _shadows(self, source: Item) -> Iterator[Shadow]:
        for child in source.items("shadow"):
            child.fields(("code", "reason"), "a shadow")
            code = child.text("code")
            reason = child.text("reason")
            entry = child.value["code"].look_up(self.registry.__getitem__) if code else None
            if entry is not None and entry.refusal_class is RefusalClass.HARD_BLOCK:
                child.report(f"`{code}` is a HARD_BLOCK, which nothing lifts")
            elif entry is not None and not entry.decided:
                child.report(f"`{code}` means that nothing was judged, which cannot be shadowed")
            elif entry is not None and entry.obligations:
                duties = " and ".join(entry.obligations)
                child.report(f"`{code}` always obliges to {duties}")
            yield Shadow(code, reason)

    def _codes(self, texts: Iterable[Item]) -> tuple[str, ...]:
        found = [text.look_up(self.registry.__getitem__) for text in texts]
        return tuple(entry.code for entry in found if entry is not None)

    def _default(self, item: Item | None) -> Outcome:
        if item is None:
            return _DEFAULT
        item.fields(("verdict", "reason_code"), "`defaults`")
        before = len(item.problems)
        verdict = item.word_or("verdict", Verdict.ESCALATE)
        code = item.get("reason_code")
        codes: tuple[str, ...] = ()
        if code is not None:
            codes = self._codes([code] if code.must_be_text("reason_code") else [])
        elif verdict is Verdict.ESCALATE:
            codes = _DEFAULT.reason_codes
        outcome = Outcome(verdict, codes)
        self._check_outcome(outcome, item, sound=len(item.problems) == before)
        return outcome

    def _rules(self, source: Item) -> Iterator[Rule]:
        source.needed("rules")
        ids: dict[str, str] = {}
        for child in source.items("rules"):
            rule = self._rule(child)
            child.once(rule.id, "rule", ids)
            yield rule

    def _rule(self, item: Item) -> Rule:
        item.fields(_RULE, "a rule")
        item.optional_text("description")
        stage = item.word("stage", Stage) or Stage.ESCALATIONS
        condition = self.conditions.read(item)
        then = self._then(item, condition)
        reads = reads_findings(condition)
        _check_stage(item)
        if reads and then.verdict is Verdict.ALLOW:
            help_text = "a finding may tighten a decision, never relax it"
            item.report("a rule that allows cannot read findings", help_text)
        return Rule(
            id=item.text("id"),
            stage=stage,
            condition=condition,
            then=then,
            shadow=item.flag("shadow"),
            where=item.where,
            reads_findings=reads,
        )

    def _then(self, rule: Item, condition: Condition) -> Outcome:
        item = rule.needed("then")
        if item is None:
            return _DEFAULT
        item.fields(_THEN, "`then`")
        before = len(item.problems)
        verdict = item.word("verdict", Verdict) or Verdict.ESCALATE
        codes = self._codes(item.different_texts("reason_codes"))
        sound = len(item.problems) == before
        # Nobody has to supply fields that an ALLOW rule requires to be missing.
        asked = () if verdict is Verdict.ALLOW else dict.fromkeys(absences(condition))
        constraints = tuple(text.value for text in item.different_texts("constraints"))
        missing = tuple(text.value for text in item.different_texts("missing"))
        duties = [child.one_of(Obligation, "obligation") for child in item.items("obligations")]
        outcome = Outcome(
            verdict=verdict,
            reason_codes=codes,
            constraints=constraints,
            missing=missing or tuple(asked),
            obligations=tuple(duty for duty in duties if duty is not None),
        )
        self._check_outcome(outcome, item, sound=sound)
        return outcome

    def _check_outcome(self, outcome: Outcome, item: Item, *, sound: bool) -> None:
        """Report an impossible outcome. If it is not `sound`, codes may be missing from it."""
        entries = [self.registry[code] for code in outcome.reason_codes]
        classes = {entry.refusal_class for entry in entries if entry.effect is Effect.REFUSE}
        if outcome.verdict is not Verdict.ALLOW:
            if sound and not classes:
                item.report(f"{outcome.verdict} needs a reason code that refuses")
            return
        for refusal_class in sorted(filter(None, classes)):
            if refusal_class is not RefusalClass.SOFT_BLOCK:
                item.report(f"ALLOW cannot carry a code of class {refusal_class}")
            elif not outcome.constraints:
                help_text = "name the `constraints` that make it safe"
                item.report("ALLOW with a SOFT_BLOCK code needs constraints", help_text)


def _digest(source: Item) -> str:
    try:
        return digest(source.plain)
    except InputError as error:
        source.report(error.problem, error.help)
        return ""


def _rates(source: Item) -> dict[str, float]:
    rates = source.entries("rates")
    for currency, rate in rates.items():
        if rate.number is None or rate.number <= 0:
            rate.report(f"the rate of `{currency}` must be a positive number")
        if not _CURRENCY.match(currency) or currency == "USD":
            problem = f"`{currency}` is no currency to convert"
            source.value["rates"].report_key(currency, problem, "like EUR")
    return {currency: rate.value for currency, rate in rates.items()}


def _check_stage(rule: Item) -> None:
    stage, then = rule.get("stage"), rule.get("then")
    said = None if then is None else then.get("verdict")
    if not _is(stage, Stage) or not _is(said, Verdict):
        return
    allowed = _VERDICTS[Stage(stage.value)]
    if said.value not in allowed:
        problem = f"a rule in {stage.value} cannot conclude {said.value}"
        rule.report(problem, " or ".join(allowed))
