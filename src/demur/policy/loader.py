"""Load a policy: every problem at once, each with file, line, column and help."""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeGuard, TypeVar

from demur.canonical import digest
from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.codes.suggest import did_you_mean
from demur.codes.vocabulary import Effect, Obligation, RefusalClass, Verdict
from demur.errors import InputError, PolicyError, Problem
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
from demur.source import Item, SourceError, read_source, read_text

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
_Word = TypeVar("_Word", bound=StrEnum)


def load_policy(path: Path | str, *, registry: Registry | None = None) -> Policy:
    """Return the policy in the file at `path`.

    Raises:
        PolicyError: The file cannot be read or used; carries every problem.
    """
    try:
        text = read_text(path, "policy")
    except SourceError as error:
        raise PolicyError.of(error.problems) from error
    return parse_policy(text, str(path), registry=registry)


def parse_policy(text: str, name: str = "policy", *, registry: Registry | None = None) -> Policy:
    """Return the policy written in `text`, called `name` in errors.

    Raises:
        PolicyError: It cannot be used; carries every problem.
    """
    known = default_registry() if registry is None else registry
    try:
        source = read_source(name, text)
    except SourceError as error:
        raise PolicyError.of(error.problems) from error
    loader = _Loader(name, known)
    policy = loader.policy(source, text)
    if loader.problems:
        raise PolicyError.of(loader.problems)
    assert policy is not None
    return policy


def _is(item: Item | None, words: type[StrEnum]) -> TypeGuard[Item]:
    return item is not None and item.value in list(words)


class _Loader:
    def __init__(self, name: str, registry: Registry) -> None:
        self.name = name
        self.registry = registry
        self.problems: list[Problem] = []
        self.conditions = ConditionReader(self.report, registry)

    def report(self, where: str, problem: str, help_text: str | None = None) -> None:
        self.problems.append(Problem(where, problem, help_text))

    def policy(self, source: Item, text: str) -> Policy | None:
        """Return the policy; worthless if problems were reported on the way."""
        fields = self._fields(source, _TOP, "a policy")
        version = self._text(fields, "schema_version", source)
        if version and version != SCHEMA_VERSION:
            place = fields["schema_version"].where
            self.report(place, f"unknown schema version `{version}`", f"this is {SCHEMA_VERSION}")
        self._description(fields)
        rules = tuple(self._rules(fields.get("rules"), source))
        shadows = tuple(self._shadows(fields.get("shadow")))
        default = self._default(fields.get("defaults"))
        return Policy(
            policy_id=self._text(fields, "policy_id", source),
            policy_version=self._text(fields, "policy_version", source),
            mode=self._word(fields.get("mode"), Mode, Mode.ENFORCE),
            default=default,
            rates=self._rates(fields.get("rates")),
            shadows=shadows,
            rules=tuple(sorted(rules, key=lambda rule: list(Stage).index(rule.stage))),
            digest=self._digest(source),
            where=self.name,
            text=text,
        )

    def _digest(self, source: Item) -> str:
        try:
            return digest(source.plain)
        except InputError as error:
            self.report(source.where, error.problem, error.help)
            return ""

    def _fields(self, item: Item, known: Iterable[str], what: str) -> Mapping[str, Item]:
        if not isinstance(item.value, dict):
            self.report(item.where, f"{what} is a mapping")
            return {}
        for key, where in item.keys.items():
            if key not in known:
                hint = did_you_mean(key, known) or f"one of {', '.join(known)}"
                self.report(where, f"unknown key `{key}`", hint)
        return item.value

    def _text(self, fields: Mapping[str, Item], key: str, parent: Item) -> str:
        if key not in fields:
            self.report(parent.where, f"`{key}` is missing")
            return ""
        value = fields[key].value
        if isinstance(value, str) and value.strip():
            return value
        self.report(fields[key].where, f"`{key}` must be a text", "quote it")
        return ""

    def _description(self, fields: Mapping[str, Item]) -> None:
        if "description" in fields:
            self._text(fields, "description", fields["description"])

    def _word(self, item: Item | None, words: type[_Word], default: _Word) -> _Word:
        if item is None:
            return default
        if not _is(item, words):
            hint = did_you_mean(str(item.plain), words) or f"one of {', '.join(words)}"
            self.report(item.where, f"unknown value `{item.plain}`", hint)
            return default
        return words(item.value)

    def _rates(self, item: Item | None) -> dict[str, float]:
        if item is None:
            return {}
        if not isinstance(item.value, dict):
            self.report(item.where, "`rates` is a mapping")
            return {}
        for currency, rate in item.value.items():
            value = rate.value
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                self.report(rate.where, f"the rate of `{currency}` must be a positive number")
            if not _CURRENCY.match(currency) or currency == "USD":
                place = item.keys[currency]
                self.report(place, f"`{currency}` is no currency to convert", "like EUR")
        return {currency: rate.value for currency, rate in item.value.items()}

    def _list(self, item: Item | None, what: str) -> list[Item]:
        if item is None:
            return []
        if isinstance(item.value, list):
            return item.value
        self.report(item.where, f"`{what}` is a list")
        return []

    def _texts(self, item: Item | None, what: str) -> dict[str, str]:
        """Return the texts of a list, each with its place."""
        texts: dict[str, str] = {}
        for child in self._list(item, what):
            if not isinstance(child.value, str) or not child.value.strip():
                self.report(child.where, f"`{what}` holds texts", "quote it")
            elif child.value in texts:
                self.report(child.where, f"`{child.value}` stands twice in `{what}`")
            else:
                texts[child.value] = child.where
        return texts

    def _shadows(self, item: Item | None) -> Iterator[Shadow]:
        for child in self._list(item, "shadow"):
            fields = self._fields(child, ("code", "reason"), "a shadow")
            code = self._text(fields, "code", child)
            reason = self._text(fields, "reason", child)
            entry = self.registry.get(code)
            if entry is None and code:
                self._unknown_code(fields["code"].where, code)
            elif entry is not None and entry.refusal_class is RefusalClass.HARD_BLOCK:
                self.report(child.where, f"`{code}` is a HARD_BLOCK, which nothing lifts")
            elif entry is not None and not entry.decided:
                self.report(child.where, f"`{code}` says that nobody could judge")
            elif entry is not None and entry.obligations:
                duties = " and ".join(entry.obligations)
                self.report(child.where, f"`{code}` always obliges to {duties}")
            yield Shadow(code, reason)

    def _unknown_code(self, where: str, code: str) -> None:
        known = [entry.code for entry in self.registry]
        hint = did_you_mean(code, known)
        count = f"`demur codes list` shows all {len(known)}"
        self.report(where, f"unknown reason code `{code}`", f"{hint} {count}" if hint else count)

    def _codes(self, item: Item | None, what: str) -> tuple[str, ...]:
        codes = self._texts(item, what)
        for code, where in codes.items():
            if code not in self.registry:
                self._unknown_code(where, code)
        return tuple(code for code in codes if code in self.registry)

    def _default(self, item: Item | None) -> Outcome:
        if item is None:
            return _DEFAULT
        fields = self._fields(item, ("verdict", "reason_code"), "`defaults`")
        before = len(self.problems)
        verdict = self._word(fields.get("verdict"), Verdict, Verdict.ESCALATE)
        code = fields.get("reason_code")
        codes: tuple[str, ...] = ()
        if code is not None:
            wrapped = Item([code], code.where, {})
            codes = self._codes(wrapped, "reason_code")
        elif verdict is Verdict.ESCALATE:
            codes = _DEFAULT.reason_codes
        outcome = Outcome(verdict, codes)
        self._check_outcome(outcome, item.where, sound=len(self.problems) == before)
        return outcome

    def _rules(self, item: Item | None, source: Item) -> Iterator[Rule]:
        if item is None:
            self.report(source.where, "`rules` is missing")
        ids: dict[str, str] = {}
        for child in self._list(item, "rules"):
            rule = self._rule(child)
            if rule.id and rule.id in ids:
                self.report(
                    child.where, f"rule `{rule.id}` stands twice", f"also at {ids[rule.id]}"
                )
            ids.setdefault(rule.id, child.where)
            yield rule

    def _rule(self, item: Item) -> Rule:
        fields = self._fields(item, _RULE, "a rule")
        self._description(fields)
        if "stage" not in fields:
            self.report(item.where, "`stage` is missing", f"one of {', '.join(Stage)}")
        stage = self._word(fields.get("stage"), Stage, Stage.ESCALATIONS)
        condition = self.conditions.read(fields.get("if"), item.where)
        then = self._then(fields.get("then"), item, condition)
        reads = reads_findings(condition)
        self._check_stage(fields.get("stage"), fields.get("then"), item.where)
        if reads and then.verdict is Verdict.ALLOW:
            help_text = "a finding may tighten a decision, never relax it"
            self.report(item.where, "a rule that allows cannot read findings", help_text)
        return Rule(
            id=self._text(fields, "id", item),
            stage=stage,
            condition=condition,
            then=then,
            shadow=self._flag(fields.get("shadow")),
            where=item.where,
            reads_findings=reads,
        )

    def _flag(self, item: Item | None) -> bool:
        if item is not None and not isinstance(item.value, bool):
            self.report(item.where, f"must be true or false, not `{item.plain}`")
        return item is not None and item.value is True

    def _then(self, item: Item | None, parent: Item, condition: Condition) -> Outcome:
        if item is None:
            self.report(parent.where, "`then` is missing")
            return _DEFAULT
        fields = self._fields(item, _THEN, "`then`")
        before = len(self.problems)
        if "verdict" not in fields:
            self.report(item.where, "`verdict` is missing", f"one of {', '.join(Verdict)}")
        verdict = self._word(fields.get("verdict"), Verdict, Verdict.ESCALATE)
        codes = self._codes(fields.get("reason_codes"), "reason_codes")
        sound = len(self.problems) == before
        # What an ALLOW found absent is nothing that anyone has to supply.
        asked = () if verdict is Verdict.ALLOW else dict.fromkeys(absences(condition))
        outcome = Outcome(
            verdict=verdict,
            reason_codes=codes,
            constraints=tuple(self._texts(fields.get("constraints"), "constraints")),
            missing=tuple(self._texts(fields.get("missing"), "missing") or asked),
            obligations=tuple(
                self._word(child, Obligation, Obligation.HUMAN_REVIEW)
                for child in self._list(fields.get("obligations"), "obligations")
            ),
        )
        self._check_outcome(outcome, item.where, sound=sound)
        return outcome

    def _check_stage(self, stage: Item | None, then: Item | None, where: str) -> None:
        said = then.value.get("verdict") if then and isinstance(then.value, dict) else None
        if not _is(stage, Stage) or not _is(said, Verdict):
            return
        allowed = _VERDICTS[Stage(stage.value)]
        if said.value not in allowed:
            problem = f"a rule in {stage.value} cannot conclude {said.value}"
            self.report(where, problem, " or ".join(allowed))

    def _check_outcome(self, outcome: Outcome, where: str, *, sound: bool) -> None:
        """Report an outcome that no decision could carry; one not `sound` may lack some codes."""
        entries = [self.registry[code] for code in outcome.reason_codes]
        classes = {entry.refusal_class for entry in entries if entry.effect is Effect.REFUSE}
        if outcome.verdict is not Verdict.ALLOW:
            if sound and not classes:
                self.report(where, f"{outcome.verdict} needs a reason code that refuses")
            return
        for refusal_class in sorted(filter(None, classes)):
            if refusal_class is not RefusalClass.SOFT_BLOCK:
                self.report(where, f"ALLOW cannot carry a code of class {refusal_class}")
            elif not outcome.constraints:
                help_text = "name the `constraints` that make it safe"
                self.report(where, "ALLOW with a SOFT_BLOCK code needs constraints", help_text)
