"""One rule of the peer in demur's form: its stage, its verdict, and what it asks for."""

from collections.abc import Iterator, Mapping

from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import PolicyError
from demur.policy.loader import parse_policy
from demur.policy.peer.condition import translate_condition
from demur.policy.peer.draft import PolicyDraft, RuleDraft
from demur.policy.peer.remark import UntranslatableError, ImportDiagnostics
from demur.policy.peer.write import render_policy
from demur.policy.policy import Mode, Stage
from demur.source.item import SourceItem

__all__ = ["translate_rule"]

_RULE = ("id", "stage", "when", "if", "if_all", "if_any", "then")
_THEN = ("verdict", "reason_codes", "queries", "obligations")
_HOME = {
    Verdict.DENY: Stage.HARD_BLOCKS,
    Verdict.ABSTAIN: Stage.REQUIREMENTS,
    Verdict.ESCALATE: Stage.ESCALATIONS,
    Verdict.ALLOW: Stage.ALLOW_PATHS,
}
_STAND_IN = "POLICY_VIOLATION"


def translate_rule(
    item: SourceItem, diagnostics: ImportDiagnostics, registry: Registry
) -> RuleDraft:
    """Return the rule, still with Lumyn's codes, and report every difference.

    Raises:
        CannotCarryError: The rule cannot be translated.
    """
    fields = item.as_fields(_RULE, "a rule")
    then = item.require_item("then")
    said = {} if then is None else then.as_fields(_THEN, "`then`")
    _raise_first_problem(item)
    assert then is not None
    name = item.require_text("id")
    _raise_first_problem(item)
    diagnostics.rule = name
    stage, verdict = item.require_word("stage", Stage), then.require_word("verdict", Verdict)
    # A blank code is renamed like any other, so that the rule is not left out.
    listed = then.list_texts("reason_codes", allow_blank=True)
    codes = tuple(dict.fromkeys(code.value for code in listed))
    if not codes:
        then.report("a rule of Lumyn names at least one reason code")
    _raise_first_problem(item)
    assert stage is not None
    assert verdict is not None
    question = translate_condition(fields, diagnostics, allowing=verdict is Verdict.ALLOW)
    place = said["verdict"].where
    draft = RuleDraft(name, stage, verdict, question.condition, item.where, codes)
    draft = _move_to_stage(draft, place, diagnostics)
    if verdict is Verdict.ALLOW and (question.never or stage is not Stage.ALLOW_PATHS):
        draft = draft._replace(shadow=True)
        _note_trial(stage, place, diagnostics)
    usual = _check_loads(draft, registry)
    missing = _read_missing(said, verdict, diagnostics)
    return draft._replace(missing=() if set(missing) <= set(usual) else missing)


def _raise_first_problem(rule: SourceItem) -> None:
    """Raise the first reported problem of a rule, and clear all for the next rule."""
    if rule.problems:
        first, *_ = rule.problems
        rule.problems.clear()
        raise UntranslatableError(first.problem, where=first.where, help=first.help)


def _move_to_stage(draft: RuleDraft, where: str, diagnostics: ImportDiagnostics) -> RuleDraft:
    """Return the rule in a stage that allows its verdict."""
    stage, verdict = draft.stage, draft.verdict
    if stage is Stage.HARD_BLOCKS and verdict is Verdict.ABSTAIN:
        message = (
            "ABSTAIN in HARD_BLOCKS becomes DENY: here ABSTAIN says that nobody could judge, "
            "and a hard block is a no"
        )
        diagnostics.add("verdict", where, message)
        return draft._replace(verdict=Verdict.DENY)
    if stage is _HOME[verdict] or (stage is Stage.REQUIREMENTS and verdict is not Verdict.ALLOW):
        return draft
    if verdict is not Verdict.ALLOW:
        message = f"a rule in {stage} cannot conclude {verdict}: it stands in {_HOME[verdict]} now"
        diagnostics.add("moved", where, message)
    return draft._replace(stage=_HOME[verdict])


def _note_trial(stage: Stage, where: str, diagnostics: ImportDiagnostics) -> None:
    if stage is Stage.ALLOW_PATHS:
        why = "an ALLOW that Lumyn never matched"
    else:
        why = f"ALLOW in {stage} contradicts itself, so it"
    message = f"{why} is on trial (`shadow: true`): it is reported, and allows nothing"
    diagnostics.add("on-trial", where, message, "to let it allow, take `shadow: true` away")


def _check_loads(draft: RuleDraft, registry: Registry) -> tuple[str, ...]:
    """Return the missing fields of the rule, after checking that it loads as a policy."""
    codes = () if draft.verdict is Verdict.ALLOW else (_STAND_IN,)
    alone = (draft._replace(codes=codes),)
    text = render_policy(PolicyDraft("", "p", "1", Mode.ENFORCE, Verdict.ESCALATE, None, alone))
    try:
        [rule] = parse_policy(text, registry=registry).rules
    except PolicyError as error:
        problem = error.problems[0]
        raise UntranslatableError(problem.problem, where=draft.where, help=problem.help) from error
    return rule.then.missing


def _read_missing(
    then: Mapping[str, SourceItem], verdict: Verdict, diagnostics: ImportDiagnostics
) -> tuple[str, ...]:
    """Return the fields that queries and obligations request from the caller."""
    fields = [*_read_queries(then.get("queries"), diagnostics)]
    fields += _read_obligations(then.get("obligations"), diagnostics)
    if fields and verdict is Verdict.ALLOW:
        message = "queries and obligations of an ALLOW rule are left out: Lumyn ignores them"
        diagnostics.add("words-left-out", then["verdict"].where, message)
        return ()
    return tuple(dict.fromkeys(fields))


def _read_queries(item: SourceItem | None, diagnostics: ImportDiagnostics) -> Iterator[str]:
    listed = item.plain_value if item is not None else None
    if item is None or not listed:
        return
    rows = listed if isinstance(listed, list) else [listed]
    fields = [row.get("field") if isinstance(row, dict) else None for row in rows]
    message = "the words of questions are left out: here the fields are named and the answer asks"
    diagnostics.add("words-left-out", item.where, message)
    for row, field in zip(rows, fields, strict=True):
        if isinstance(field, str) and field.strip():
            yield field
        else:
            diagnostics.add("words-left-out", item.where, f"the query `{row}` names no field")


def _read_obligations(item: SourceItem | None, diagnostics: ImportDiagnostics) -> Iterator[str]:
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
        diagnostics.add("words-left-out", one.where, message, help_text)
