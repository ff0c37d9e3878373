"""Evidence that rules read and nobody asks for, and rules that ask for it.

The peer's rules say nothing where their evidence is left out. That stays as it was,
unless the operator wants it to be asked for.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from demur.codes.vocabulary import Verdict
from demur.policy.gaps import find_gaps, list_requirements
from demur.policy.peer.draft import RuleDraft
from demur.policy.peer.remark import ImportDiagnostics
from demur.policy.policy import All, Compare, Operator, RuleOutcome, Policy, PolicyRule, Stage

__all__ = ["EvidenceNeed", "build_requirements", "list_needs", "note_needs", "required_needs"]

_NEEDED_CODE = "CONTEXT_MISSING"


class EvidenceNeed(NamedTuple):
    """Fields that an action needs. `action` is written as in a condition."""

    action: Any
    fields: tuple[str, ...]
    where: str
    rule: str | None


def list_needs(policy: Policy, drafts: Iterable[RuleDraft]) -> list[EvidenceNeed]:
    """Return the fields that imported rules read and no requirement asks for."""
    asked = list_requirements(policy)
    by_id = {rule.id: rule for rule in policy.rules}
    found = []
    for draft in drafts:
        rule = by_id[draft.id]
        if rule.then.verdict is not Verdict.ALLOW and (
            fields := tuple(sorted(find_gaps(rule, asked)))
        ):
            action = draft.condition.get("action_type")
            found.append(EvidenceNeed(action, fields, draft.where, draft.id))
    return found


def required_needs(
    policy: Policy, evidence: Mapping[str, Sequence[str]], where: str
) -> list[EvidenceNeed]:
    """Return the fields in `required_evidence` that no imported rule asks for."""
    asked = list_requirements(policy)
    found = []
    for action, names in evidence.items():
        fields = tuple(f"evidence.{name}" for name in names)
        open_fields = tuple(
            field for field in fields if find_gaps(_probe_rule(action, field), asked)
        )
        if open_fields:
            found.append(EvidenceNeed(action, open_fields, where, None))
    return found


def _probe_rule(action: str, field: str) -> PolicyRule:
    """Return a rule that stops this action by this field."""
    parts = (Compare("action.type", Operator.EQ, action), Compare(field, Operator.EQ, ""))
    then = RuleOutcome(Verdict.DENY, ())
    return PolicyRule(
        id="",
        stage=Stage.HARD_BLOCKS,
        condition=All(parts),
        then=then,
        shadow=False,
        where="",
        reads_findings=False,
    )


def note_needs(needs: Iterable[EvidenceNeed], diagnostics: ImportDiagnostics) -> None:
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
        diagnostics.add(kind, need.where, message, help_text, rule=need.rule)


def build_requirements(needs: Iterable[EvidenceNeed], used_ids: Iterable[str]) -> list[RuleDraft]:
    """Return one requirement for each action that has needs."""
    by_action: dict[str, list[EvidenceNeed]] = {}
    for need in needs:
        by_action.setdefault(repr(need.action), []).append(need)
    names = set(used_ids)
    rules = []
    for group in by_action.values():
        first = group[0]
        fields = dict.fromkeys(field for need in group for field in need.fields)
        name = _requirement_name(first.action, names)
        names.add(name)
        condition: dict[str, Any] = {} if first.action is None else {"action_type": first.action}
        condition["any"] = [{field: {"missing": True}} for field in fields]
        rules.append(
            RuleDraft(
                name, Stage.REQUIREMENTS, Verdict.ESCALATE, condition, first.where, (_NEEDED_CODE,)
            )
        )
    return rules


def _requirement_name(action: Any, taken: Iterable[str]) -> str:
    words = re.findall(r"[A-Za-z0-9]+", action) if isinstance(action, str) else []
    base = "_".join(["NEEDS", *words]).upper()
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return name
