"""Evidence that rules read and nobody asks for, and rules that ask for it.

The peer's rules say nothing where their evidence is left out. That stays as it was,
unless the operator wants it to be asked for.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from demur.codes.vocabulary import Verdict
from demur.policy.gaps import gaps, requirements
from demur.policy.peer.draft import RuleDraft
from demur.policy.peer.remark import Remarks
from demur.policy.policy import All, Compare, Operator, Outcome, Policy, Rule, Stage

__all__ = ["Need", "asking_rules", "needs_of", "remark_needs", "required"]

_CODE = "CONTEXT_MISSING"


class Need(NamedTuple):
    """Fields that an action needs. `action` is written as in a condition."""

    action: Any
    fields: tuple[str, ...]
    where: str
    rule: str | None


def needs_of(policy: Policy, drafts: Iterable[RuleDraft]) -> list[Need]:
    """Return the fields that imported rules read and no requirement asks for."""
    asked = requirements(policy)
    by_id = {rule.id: rule for rule in policy.rules}
    found = []
    for draft in drafts:
        rule = by_id[draft.id]
        if rule.then.verdict is not Verdict.ALLOW and (fields := tuple(sorted(gaps(rule, asked)))):
            action = draft.condition.get("action_type")
            found.append(Need(action, fields, draft.where, draft.id))
    return found


def required(policy: Policy, evidence: Mapping[str, Sequence[str]], where: str) -> list[Need]:
    """Return the fields in `required_evidence` that no imported rule asks for."""
    asked = requirements(policy)
    found = []
    for action, names in evidence.items():
        fields = tuple(f"evidence.{name}" for name in names)
        open_fields = tuple(field for field in fields if gaps(_probe(action, field), asked))
        if open_fields:
            found.append(Need(action, open_fields, where, None))
    return found


def _probe(action: str, field: str) -> Rule:
    """Return a rule that stops this action by this field."""
    parts = (Compare("action.type", Operator.EQ, action), Compare(field, Operator.EQ, ""))
    then = Outcome(Verdict.DENY, ())
    return Rule(
        id="",
        stage=Stage.HARD_BLOCKS,
        condition=All(parts),
        then=then,
        shadow=False,
        where="",
        reads_findings=False,
    )


def remark_needs(needs: Iterable[Need], remarks: Remarks) -> None:
    """Report the fields that a request can still omit."""
    for need in needs:
        fields = ", ".join(f"`{field}`" for field in need.fields)
        if need.rule is None:
            kind = "never-read"
            message = f"Lumyn never reads `required_evidence`: {fields} of `{need.action}`"
        else:
            kind = "evidence-needed"
            message = f"a request without {fields} passes rule `{need.rule}`, as it did in Lumyn"
        help_text = "`--require-evidence` asks for it"
        remarks.add(kind, need.where, message, help_text, rule=need.rule)


def asking_rules(needs: Iterable[Need], taken: Iterable[str]) -> list[RuleDraft]:
    """Return one requirement for each action that has needs."""
    by_action: dict[str, list[Need]] = {}
    for need in needs:
        by_action.setdefault(repr(need.action), []).append(need)
    names = set(taken)
    rules = []
    for group in by_action.values():
        first = group[0]
        fields = dict.fromkeys(field for need in group for field in need.fields)
        name = _name(first.action, names)
        names.add(name)
        condition: dict[str, Any] = {} if first.action is None else {"action_type": first.action}
        condition["any"] = [{field: {"missing": True}} for field in fields]
        rules.append(
            RuleDraft(name, Stage.REQUIREMENTS, Verdict.ESCALATE, condition, first.where, (_CODE,))
        )
    return rules


def _name(action: Any, taken: Iterable[str]) -> str:
    words = re.findall(r"[A-Za-z0-9]+", action) if isinstance(action, str) else []
    base = "_".join(["NEEDS", *words]).upper()
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return name
