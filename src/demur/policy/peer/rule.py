"""One rule of the peer in demur's form: its stage, its verdict, and what it asks for."""

from collections.abc import Iterator, Mapping

from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import PolicyError
from demur.policy.loader import parse_policy
from demur.policy.peer.condition import asked
from demur.policy.peer.draft import Draft, RuleDraft
from demur.policy.peer.remark import CannotCarryError, Remarks
from demur.policy.peer.write import policy_text
from demur.policy.policy import Mode, Stage
from demur.source.item import Item

__all__ = ["carry_rule"]

_RULE = ("id", "stage", "when", "if", "if_all", "if_any", "then")
_THEN = ("verdict", "reason_codes", "queries", "obligations")
_HOME = {
    Verdict.DENY: Stage.HARD_BLOCKS,
    Verdict.ABSTAIN: Stage.REQUIREMENTS,
    Verdict.ESCALATE: Stage.ESCALATIONS,
    Verdict.ALLOW: Stage.ALLOW_PATHS,
}
_STAND_IN = "POLICY_VIOLATION"


def carry_rule(item: Item, remarks: Remarks, registry: Registry) -> RuleDraft:
    """Return the rule, still with Lumyn's codes, and report every difference.

    Raises:
        CannotCarryError: The rule cannot be translated.
    """
    fields = item.fields(_RULE, "a rule")
    then = item.needed("then")
    said = {} if then is None else then.fields(_THEN, "`then`")
    _refuse(item)
    assert then is not None
    name = item.text("id")
    _refuse(item)
    remarks.rule = name
    stage, verdict = item.word("stage", Stage), then.word("verdict", Verdict)
    # A blank code is renamed like any other, so that the rule is not left out.
    listed = then.texts("reason_codes", may_be_blank=True)
    codes = tuple(dict.fromkeys(code.value for code in listed))
    if not codes:
        then.report("a rule of Lumyn names at least one reason code")
    _refuse(item)
    assert stage is not None
    assert verdict is not None
    question = asked(fields, remarks, allows=verdict is Verdict.ALLOW)
    place = said["verdict"].where
    draft = RuleDraft(name, stage, verdict, question.condition, item.where, codes)
    draft = _placed(draft, place, remarks)
    if verdict is Verdict.ALLOW and (question.never or stage is not Stage.ALLOW_PATHS):
        draft = draft._replace(shadow=True)
        _on_trial(stage, place, remarks)
    usual = _checked(draft, registry)
    missing = _missing(said, verdict, remarks)
    return draft._replace(missing=() if set(missing) <= set(usual) else missing)


def _refuse(rule: Item) -> None:
    """Raise the first reported problem of a rule, and clear all for the next rule."""
    if rule.problems:
        first, *_ = rule.problems
        rule.problems.clear()
        raise CannotCarryError(first.problem, where=first.where, help=first.help)


def _placed(draft: RuleDraft, where: str, remarks: Remarks) -> RuleDraft:
    """Return the rule in a stage that allows its verdict."""
    stage, verdict = draft.stage, draft.verdict
    if stage is Stage.HARD_BLOCKS and verdict is Verdict.ABSTAIN:
        message = (
            "ABSTAIN in HARD_BLOCKS becomes DENY: here ABSTAIN says that nobody could judge, "
            "and a hard block is a no"
        )
        remarks.add("verdict", where, message)
        return draft._replace(verdict=Verdict.DENY)
    if stage is _HOME[verdict] or (stage is Stage.REQUIREMENTS and verdict is not Verdict.ALLOW):
        return draft
    if verdict is not Verdict.ALLOW:
        message = f"a rule in {stage} cannot conclude {verdict}: it stands in {_HOME[verdict]} now"
        remarks.add("moved", where, message)
    return draft._replace(stage=_HOME[verdict])


def _on_trial(stage: Stage, where: str, remarks: Remarks) -> None:
    if stage is Stage.ALLOW_PATHS:
        why = "an ALLOW that Lumyn never matched"
    else:
        why = f"ALLOW in {stage} contradicts itself, so it"
    message = f"{why} is on trial (`shadow: true`): it is reported, and allows nothing"
    remarks.add("on-trial", where, message, "to let it allow, take `shadow: true` away")


def _checked(draft: RuleDraft, registry: Registry) -> tuple[str, ...]:
    """Return the missing fields of the rule, after checking that it loads as a policy."""
    codes = () if draft.verdict is Verdict.ALLOW else (_STAND_IN,)
    alone = (draft._replace(codes=codes),)
    text = policy_text(Draft("", "p", "1", Mode.ENFORCE, Verdict.ESCALATE, None, alone))
    try:
        [rule] = parse_policy(text, registry=registry).rules
    except PolicyError as error:
        problem = error.problems[0]
        raise CannotCarryError(problem.problem, where=draft.where, help=problem.help) from error
    return rule.then.missing


def _missing(then: Mapping[str, Item], verdict: Verdict, remarks: Remarks) -> tuple[str, ...]:
    """Return the fields that queries and obligations request from the caller."""
    fields = [*_queries(then.get("queries"), remarks)]
    fields += _obligations(then.get("obligations"), remarks)
    if fields and verdict is Verdict.ALLOW:
        message = "queries and obligations of an ALLOW rule are left out: Lumyn ignores them"
        remarks.add("words-left-out", then["verdict"].where, message)
        return ()
    return tuple(dict.fromkeys(fields))


def _queries(item: Item | None, remarks: Remarks) -> Iterator[str]:
    listed = item.plain if item is not None else None
    if item is None or not listed:
        return
    rows = listed if isinstance(listed, list) else [listed]
    fields = [row.get("field") if isinstance(row, dict) else None for row in rows]
    message = "the words of questions are left out: here the fields are named and the answer asks"
    remarks.add("words-left-out", item.where, message)
    for row, field in zip(rows, fields, strict=True):
        if isinstance(field, str) and field.strip():
            yield field
        else:
            remarks.add("words-left-out", item.where, f"the query `{row}` names no field")


def _obligations(item: Item | None, remarks: Remarks) -> Iterator[str]:
    listed = item.value if item is not None and isinstance(item.value, list) else []
    for one in listed:
        row = one.plain if isinstance(one.plain, dict) else {"title": one.plain}
        fields = row.get("fields")
        if row.get("type") == "required_evidence" and isinstance(fields, list) and fields:
            yield from (field for field in fields if isinstance(field, str) and field.strip())
            continue
        words = ": ".join(str(row[key]) for key in ("type", "title") if row.get(key) is not None)
        message = f"the obligation `{words}` is left out: here one is human_review, or a resource"
        help_text = "have the caller do it, or oblige to `human_review` in `then`"
        remarks.add("words-left-out", one.where, message, help_text)
