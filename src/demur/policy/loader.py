"""Load a policy and report every problem at once, with file, line, column and help."""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TypeGuard

from demur.canonical import digest
from demur.codes.loading import check_pin, default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Effect, Obligation, RefusalClass, Verdict
from demur.errors import InputError, PolicyError
from demur.policy.conditions import (
    ConditionReader,
    absent_paths,
    absent_signals,
    reads_findings,
)
from demur.policy.policy import (
    Condition,
    Mode,
    Policy,
    PolicyRule,
    RuleOutcome,
    ShadowedCode,
    Stage,
)
from demur.source.item import SourceItem
from demur.source.reading import read_source, read_text
from demur.source.schema import JsonSchema, load_schema

SCHEMA_VERSION = "policy.v1"
# The policy without a settings file: guards decide, and there is no rule.
AGENT_POLICY = Path(__file__).with_name("agent_policy.yaml")
_SCHEMA = load_schema(__file__, SCHEMA_VERSION)
_PART_FIELDS = {name: part.get("properties", {}) for name, part in _SCHEMA["$defs"].items()}
_STAGE_VERDICTS = {
    Stage.REQUIREMENTS: (Verdict.DENY, Verdict.ABSTAIN, Verdict.ESCALATE),
    Stage.HARD_BLOCKS: (Verdict.DENY,),
    Stage.ESCALATIONS: (Verdict.ESCALATE,),
    Stage.ALLOW_PATHS: (Verdict.ALLOW,),
}
_DEFAULT_OUTCOME = RuleOutcome(Verdict.ESCALATE, ("NO_MATCH_DEFAULT_ESCALATE",))
MAX_APPROVALS = 5
_CURRENCY_CODE = re.compile(r"[A-Z]{3}\Z")


def policy_schema() -> JsonSchema:
    """Return the JSON Schema of policy files.

    It checks the form. Whether codes are registered, patterns are linear and conditions can
    hold is checked when the policy is loaded.
    """
    return load_schema(__file__, SCHEMA_VERSION)


def load_policy(path: Path | str, *, registry: Registry | None = None) -> Policy:
    """Return the policy in the file at `path`.

    Raises:
        PolicyError: demur cannot read or use the file; carries every problem.
    """
    return parse_policy(read_text(path, "policy", PolicyError), str(path), registry=registry)


def parse_policy(text: str, name: str = "policy", *, registry: Registry | None = None) -> Policy:
    """Return the policy written in `text`, called `name` in errors.

    Raises:
        PolicyError: demur cannot use it; carries every problem.
    """
    known = default_registry() if registry is None else registry
    source = read_source(name, text, PolicyError)
    policy = _PolicyLoader(name, known).load(source, text)
    source.raise_problems(PolicyError)
    return policy


def digest_policy(text: str) -> str:
    """Return the digest of the policy written in `text`, as `Policy.digest` has it.

    Raises:
        PolicyError: It is no policy.
    """
    source = read_source("policy", text, PolicyError)
    policy_digest = _digest_source(source)
    source.raise_problems(PolicyError)
    return policy_digest


def _is_word(item: SourceItem | None, words: type[StrEnum]) -> TypeGuard[SourceItem]:
    return item is not None and item.value in list(words)


class _PolicyLoader:
    def __init__(self, name: str, registry: Registry) -> None:
        self.name = name
        self.registry = registry
        self.conditions = ConditionReader(registry)

    def load(self, source: SourceItem, text: str) -> Policy:
        """Return the policy. It must not be used if problems were reported."""
        source.as_fields(_SCHEMA["properties"], "a policy")
        source.check_version(SCHEMA_VERSION)
        source.optional_text("description")
        if pin := source.optional_text("registry"):
            source.value["registry"].look_up(lambda _: check_pin(self.registry, pin))
        rules = tuple(self._read_rules(source))
        shadows = tuple(self._read_shadows(source))
        default = self._read_default(source.get("defaults"))
        return Policy(
            policy_id=source.require_text("policy_id"),
            policy_version=source.require_text("policy_version"),
            mode=source.word_or_default("mode", Mode.ENFORCE),
            default=default,
            rates=_read_rates(source),
            shadows=shadows,
            rules=tuple(sorted(rules, key=lambda rule: list(Stage).index(rule.stage))),
            digest=_digest_source(source),
            where=self.name,
            text=text,
        )

    def _read_shadows(self, source: SourceItem) -> Iterator[ShadowedCode]:
        for child in source.list_items("shadow"):
            child.as_fields(_PART_FIELDS["shadow"], "a shadow")
            code = child.require_text("code")
            reason = child.require_text("reason")
            entry = child.value["code"].look_up(self.registry.__getitem__) if code else None
            if entry is not None and entry.refusal_class is RefusalClass.HARD_BLOCK:
                child.report(f"`{code}` is a HARD_BLOCK, which nothing lifts")
            elif entry is not None and not entry.decided:
                child.report(f"`{code}` means that nothing was judged, which cannot be shadowed")
            elif entry is not None and entry.obligations:
                child.report(f"`{code}` always obliges to {' and '.join(entry.obligations)}")
            yield ShadowedCode(code, reason)

    def _look_up_codes(self, texts: Iterable[SourceItem]) -> tuple[str, ...]:
        found = [text.look_up(self.registry.__getitem__) for text in texts]
        return tuple(entry.code for entry in found if entry is not None)

    def _read_default(self, item: SourceItem | None) -> RuleOutcome:
        if item is None:
            return _DEFAULT_OUTCOME
        item.as_fields(_PART_FIELDS["defaults"], "`defaults`")
        before = len(item.problems)
        verdict = item.word_or_default("verdict", Verdict.ESCALATE)
        code = item.get("reason_code")
        codes: tuple[str, ...] = ()
        if code is not None:
            codes = self._look_up_codes([code] if code.must_be_text("reason_code") else [])
        elif verdict is Verdict.ESCALATE:
            codes = _DEFAULT_OUTCOME.reason_codes
        outcome = RuleOutcome(verdict, codes)
        self._check_outcome(outcome, item, complete=len(item.problems) == before)
        return outcome

    def _read_rules(self, source: SourceItem) -> Iterator[PolicyRule]:
        source.require_item("rules")
        ids: dict[str, str] = {}
        for child in source.list_items("rules"):
            rule = self._read_rule(child)
            child.report_duplicate(rule.id, "rule", ids)
            yield rule

    def _read_rule(self, item: SourceItem) -> PolicyRule:
        item.as_fields(_PART_FIELDS["rule"], "a rule")
        item.optional_text("description")
        stage = item.require_word("stage", Stage) or Stage.ESCALATIONS
        condition = self.conditions.read_condition(item)
        then = self._read_outcome(item, condition)
        reads = reads_findings(condition)
        _check_stage(item)
        if reads and then.verdict is Verdict.ALLOW:
            help_text = "a finding may tighten a decision, never relax it"
            item.report("a rule that allows cannot read findings", help_text)
        absent = absent_signals(condition) if then.verdict is Verdict.ALLOW else ()
        if absent:
            help_text = "compare its value, or escalate where it is missing"
            item.report(f"a rule that allows cannot rest on `{absent[0]}` being missing", help_text)
        return PolicyRule(
            id=item.require_text("id"),
            stage=stage,
            condition=condition,
            then=then,
            shadow=item.read_flag("shadow"),
            where=item.where,
            reads_findings=reads,
        )

    def _read_outcome(self, rule: SourceItem, condition: Condition) -> RuleOutcome:
        item = rule.require_item("then")
        if item is None:
            return _DEFAULT_OUTCOME
        item.as_fields(_PART_FIELDS["then"], "`then`")
        before = len(item.problems)
        verdict = item.require_word("verdict", Verdict) or Verdict.ESCALATE
        codes = self._look_up_codes(item.distinct_texts("reason_codes"))
        complete = len(item.problems) == before
        # Nobody has to supply fields that an ALLOW rule requires to be missing.
        absent = () if verdict is Verdict.ALLOW else dict.fromkeys(absent_paths(condition))
        constraints = tuple(text.value for text in item.distinct_texts("constraints"))
        missing = tuple(text.value for text in item.distinct_texts("missing"))
        listed = item.list_items("obligations")
        obligations = [child.match_word(Obligation, "obligation") for child in listed]
        outcome = RuleOutcome(
            verdict=verdict,
            reason_codes=codes,
            constraints=constraints,
            missing=missing or tuple(absent),
            obligations=tuple(obligation for obligation in obligations if obligation is not None),
            approvals=self._read_approvals(item, codes) if complete else 1,
        )
        self._check_outcome(outcome, item, complete=complete)
        return outcome

    def _read_approvals(self, then: SourceItem, codes: Iterable[str]) -> int:
        """Return how many people must lift the codes, and report a number that helps nobody."""
        item = then.get("approvals")
        if item is None:
            return 1
        number = item.integer
        if number is None or not 1 <= number <= MAX_APPROVALS:
            help_text = "how many different people must approve"
            item.report(f"`approvals` is a whole number from 1 to {MAX_APPROVALS}", help_text)
            return 1
        if not any(self.registry[code].grants for code in codes):
            item.report("no grant lifts the codes of this rule, so nobody can approve")
        return number

    def _check_outcome(self, outcome: RuleOutcome, item: SourceItem, *, complete: bool) -> None:
        """Report an impossible outcome. Unless it is `complete`, codes may be missing from it."""
        entries = [self.registry[code] for code in outcome.reason_codes]
        classes = {entry.refusal_class for entry in entries if entry.effect is Effect.REFUSE}
        if outcome.verdict is not Verdict.ALLOW:
            if complete and not classes:
                item.report(f"{outcome.verdict} needs a reason code that refuses")
            return
        for refusal_class in sorted(filter(None, classes)):
            if refusal_class is not RefusalClass.SOFT_BLOCK:
                item.report(f"ALLOW cannot carry a code of class {refusal_class}")
            elif not outcome.constraints:
                help_text = "name the `constraints` that make it safe"
                item.report("ALLOW with a SOFT_BLOCK code needs constraints", help_text)


def _digest_source(source: SourceItem) -> str:
    try:
        return digest(source.plain_value)
    except InputError as error:
        source.report(error.problem, error.help)
        return ""


def _read_rates(source: SourceItem) -> dict[str, float]:
    rates = source.read_entries("rates")
    for currency, rate in rates.items():
        if rate.number is None or rate.number <= 0:
            rate.report(f"the rate of `{currency}` must be a positive number")
        if not _CURRENCY_CODE.match(currency) or currency == "USD":
            problem = f"`{currency}` is no currency to convert"
            source.value["rates"].report_key(currency, problem, "like EUR")
    return {currency: rate.value for currency, rate in rates.items()}


def _check_stage(rule: SourceItem) -> None:
    stage, then = rule.get("stage"), rule.get("then")
    verdict = None if then is None else then.get("verdict")
    if not _is_word(stage, Stage) or not _is_word(verdict, Verdict):
        return
    allowed = _STAGE_VERDICTS[Stage(stage.value)]
    if verdict.value not in allowed:
        problem = f"a rule in {stage.value} cannot conclude {verdict.value}"
        rule.report(problem, " or ".join(allowed))
