"""Import a Lumyn policy: translate every rule and report every difference.

Lumyn's rules do not match where their evidence is left out. The import keeps that, unless the
operator asks for rules that require the evidence.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from demur.codes.registry import Registry
from demur.codes.vocabulary import Effect, Verdict
from demur.errors import PolicyError
from demur.policy.implication import find_gaps, list_requirements
from demur.policy.loader import parse_policy
from demur.policy.lumyn_codes import extend_registry, list_code_uses, name_codes
from demur.policy.lumyn_conditions import translate_condition
from demur.policy.lumyn_draft import (
    ImportDiagnostic,
    ImportLog,
    PolicyDraft,
    RuleDraft,
    UntranslatableError,
    render_policy,
)
from demur.policy.policy import All, Compare, Mode, Operator, Policy, PolicyRule, RuleOutcome, Stage
from demur.source.item import SourceItem, line_and_column
from demur.source.reading import read_source

_RULE = ("id", "stage", "when", "if", "if_all", "if_any", "then")
_THEN = ("verdict", "reason_codes", "queries", "obligations")
_HOME = {
    Verdict.DENY: Stage.HARD_BLOCKS,
    Verdict.ABSTAIN: Stage.REQUIREMENTS,
    Verdict.ESCALATE: Stage.ESCALATIONS,
    Verdict.ALLOW: Stage.ALLOW_PATHS,
}
_STAND_IN = "POLICY_VIOLATION"


def translate_rule(item: SourceItem, log: ImportLog, registry: Registry) -> RuleDraft:
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
    log.rule = name
    stage, verdict = item.require_word("stage", Stage), then.require_word("verdict", Verdict)
    # A blank code is renamed like any other, so that the rule is not left out.
    listed = then.list_texts("reason_codes", allow_blank=True)
    codes = tuple(dict.fromkeys(code.value for code in listed))
    if not codes:
        then.report("a rule of Lumyn names at least one reason code")
    _raise_first_problem(item)
    assert stage is not None
    assert verdict is not None
    question = translate_condition(fields, log, allowing=verdict is Verdict.ALLOW)
    place = said["verdict"].where
    draft = RuleDraft(name, stage, verdict, question.condition, item.where, codes)
    draft = _move_to_stage(draft, place, log)
    if verdict is Verdict.ALLOW and (question.never or stage is not Stage.ALLOW_PATHS):
        draft = draft._replace(shadow=True)
        _note_trial(stage, place, log)
    usual = _check_loads(draft, registry)
    missing = _read_missing(said, verdict, log)
    return draft._replace(missing=() if set(missing) <= set(usual) else missing)


def _raise_first_problem(rule: SourceItem) -> None:
    """Raise the first reported problem of a rule, and clear all for the next rule."""
    if rule.problems:
        first, *_ = rule.problems
        rule.problems.clear()
        raise UntranslatableError(first.problem, where=first.where, help=first.help)


def _move_to_stage(draft: RuleDraft, where: str, log: ImportLog) -> RuleDraft:
    """Return the rule in a stage that allows its verdict."""
    stage, verdict = draft.stage, draft.verdict
    if stage is Stage.HARD_BLOCKS and verdict is Verdict.ABSTAIN:
        message = (
            "ABSTAIN in HARD_BLOCKS becomes DENY: here ABSTAIN says that nobody could judge, "
            "and a hard block is a no"
        )
        log.add("verdict", where, message)
        return draft._replace(verdict=Verdict.DENY)
    if stage is _HOME[verdict] or (stage is Stage.REQUIREMENTS and verdict is not Verdict.ALLOW):
        return draft
    if verdict is not Verdict.ALLOW:
        message = f"a rule in {stage} cannot conclude {verdict}: it stands in {_HOME[verdict]} now"
        log.add("moved", where, message)
    return draft._replace(stage=_HOME[verdict])


def _note_trial(stage: Stage, where: str, log: ImportLog) -> None:
    if stage is Stage.ALLOW_PATHS:
        why = "an ALLOW that Lumyn never matched"
    else:
        why = f"ALLOW in {stage} contradicts itself, so it"
    message = f"{why} is on trial (`shadow: true`): it is reported, and allows nothing"
    log.add("on-trial", where, message, "to let it allow, take `shadow: true` away")


def _check_loads(draft: RuleDraft, registry: Registry) -> tuple[str, ...]:
    """Return the missing fields of the rule, after checking that it loads as a policy."""
    alone = (draft._replace(codes=() if draft.verdict is Verdict.ALLOW else (_STAND_IN,)),)
    text = render_policy(PolicyDraft("", "p", "1", Mode.ENFORCE, Verdict.ESCALATE, None, alone))
    try:
        [rule] = parse_policy(text, registry=registry).rules
    except PolicyError as error:
        problem = error.problems[0]
        raise UntranslatableError(problem.problem, where=draft.where, help=problem.help) from error
    return rule.then.missing


def _read_missing(
    then: Mapping[str, SourceItem], verdict: Verdict, log: ImportLog
) -> tuple[str, ...]:
    """Return the fields that queries and obligations request from the caller."""
    fields = [*_read_queries(then.get("queries"), log)]
    fields += _read_obligations(then.get("obligations"), log)
    if fields and verdict is Verdict.ALLOW:
        message = "queries and obligations of an ALLOW rule are left out: Lumyn ignores them"
        log.add("words-left-out", then["verdict"].where, message)
        return ()
    return tuple(dict.fromkeys(fields))


def _read_queries(item: SourceItem | None, log: ImportLog) -> Iterator[str]:
    listed = item.plain_value if item is not None else None
    if item is None or not listed:
        return
    rows = listed if isinstance(listed, list) else [listed]
    fields = [row.get("field") if isinstance(row, dict) else None for row in rows]
    message = "the words of questions are left out: here the fields are named and the answer asks"
    log.add("words-left-out", item.where, message)
    for row, field in zip(rows, fields, strict=True):
        if isinstance(field, str) and field.strip():
            yield field
        else:
            log.add("words-left-out", item.where, f"the query `{row}` names no field")


def _read_obligations(item: SourceItem | None, log: ImportLog) -> Iterator[str]:
    listed = item.value if item is not None and isinstance(item.value, list) else []
    for one in listed:
        row = one.plain_value if isinstance(one.plain_value, dict) else {"title": one.plain_value}
        fields = row.get("fields")
        if row.get("type") == "required_evidence" and isinstance(fields, list) and fields:
            yield from (field for field in fields if isinstance(field, str) and field.strip())
            continue
        words = ": ".join(str(row[key]) for key in ("type", "title") if row.get(key) is not None)
        message = f"the obligation `{words}` is left out: here one is human_review, or a resource"
        help_text = "have the caller do it, or oblige to `human_review` in `then`"
        log.add("words-left-out", one.where, message, help_text)


LUMYN_SCHEMA_VERSION = "policy.v1"

_TOP_KEYS = ("schema_version", "policy_id", "policy_version", "defaults", "rules")
_NEVER_READ = ("thresholds", "extensions")
_FIELD = re.compile(r"[A-Za-z_][\w-]*\Z", re.ASCII)


def read_head(source: SourceItem, name: str, log: ImportLog) -> PolicyDraft:
    """Return Lumyn's policy without its rules.

    Raises:
        PolicyError: It is not a Lumyn policy; carries every problem.
    """
    source.as_mapping("a policy")
    version = source.get("schema_version")
    if version is None or version.value != LUMYN_SCHEMA_VERSION:
        place, shown = (source, "none") if version is None else (version, version.plain_value)
        help_text = "only policy.v1 is read; bring an older one to that form first"
        place.report(f"unknown schema version `{shown}`", help_text)
    defaults = source.require_item("defaults")
    source.require_item("rules")
    source.list_items("rules")
    draft = PolicyDraft(
        source=name,
        policy_id=source.require_text("policy_id"),
        policy_version=source.require_text("policy_version"),
        mode=Mode.ENFORCE,
        verdict=Verdict.ESCALATE,
        code="NO_MATCH_DEFAULT_ESCALATE",
        rules=(),
    )
    if defaults is not None:
        defaults.as_mapping("`defaults`")
        draft = draft._replace(
            mode=defaults.word_or_default("mode", draft.mode),
            verdict=defaults.word_or_default("default_verdict", draft.verdict),
            code=defaults.optional_text("default_reason_code") or draft.code,
        )
    source.raise_problems(PolicyError)
    _note_head(source, draft, log)
    return draft


def _note_head(source: SourceItem, draft: PolicyDraft, log: ImportLog) -> None:
    for key, where in source.keys.items():
        if key in _NEVER_READ:
            log.add("never-read", where, f"Lumyn never reads `{key}`; it is left out")
        elif key not in (*_TOP_KEYS, "required_evidence"):
            log.add("left-out", where, f"unknown key `{key}`")
    if draft.mode is Mode.ADVISORY:
        where = source.value["defaults"].value["mode"].where
        message = "Lumyn only records the mode; here an advisory policy does not bind"
        log.add("mode", where, message, "write `mode: enforce` if verdicts must bind")


def read_required_evidence(
    source: SourceItem, log: ImportLog
) -> tuple[Mapping[str, Sequence[str]], str]:
    """Return the evidence that Lumyn lists and never reads, and its place."""
    where = source.keys.get("required_evidence", source.where)
    item = source.value.get("required_evidence")
    listed = {} if item is None else item.plain_value
    good = isinstance(listed, dict) and all(
        isinstance(names, list)
        and all(isinstance(name, str) and _FIELD.match(name) for name in names)
        for names in listed.values()
    )
    if not good:
        message = "`required_evidence` is left out: it lists the names of fields by action"
        log.add("left-out", where, message)
    return (listed if good else {}), where


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
        gaps = tuple(name for name in fields if find_gaps(_probe_rule(action, name), asked))
        if gaps:
            found.append(EvidenceNeed(action, gaps, where, None))
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


def note_needs(needs: Iterable[EvidenceNeed], log: ImportLog) -> None:
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
        log.add(kind, need.where, message, help_text, rule=need.rule)


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
        words = re.findall(r"[A-Za-z0-9]+", first.action) if isinstance(first.action, str) else []
        name = _free_name("_".join(["NEEDS", *words]).upper(), names)
        names.add(name)
        condition: dict[str, Any] = {} if first.action is None else {"action_type": first.action}
        condition["any"] = [{field: {"missing": True}} for field in fields]
        outcome = (Stage.REQUIREMENTS, Verdict.ESCALATE, condition)
        rules.append(RuleDraft(name, *outcome, first.where, (_NEEDED_CODE,)))
    return rules


def _free_name(base: str, taken: Iterable[str]) -> str:
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return name


class ImportedPolicy(NamedTuple):
    """The translated policy, the registry entries it needs, and all differences."""

    text: str
    entries: tuple[dict[str, Any], ...]
    diagnostics: tuple[ImportDiagnostic, ...]


def import_policy(
    text: str,
    name: str,
    *,
    registry: Registry,
    domain: str | None = None,
    descriptions: Mapping[str, str] | None = None,
    require_evidence: bool = False,
) -> ImportedPolicy:
    """Translate Lumyn's policy in `text`; diagnostics call it `name`.

    Raises:
        PolicyError: It is not a Lumyn policy; carries every problem.
        InputError: Its codes need a domain.
    """
    source = read_source(name, text, PolicyError)
    log = ImportLog()
    draft = read_head(source, name, log)
    rules = _translate_rules(source.value["rules"].value, registry, log)
    draft = draft._replace(rules=tuple(rules))
    naming = name_codes(list_code_uses(draft), registry, domain, descriptions or {}, log)
    known = extend_registry(registry, domain, naming.entries)
    draft = _rename_codes(draft, naming.names, known, log)
    policy = parse_policy(render_policy(draft), registry=known)
    evidence, where = read_required_evidence(source, log)
    needs = [*required_needs(policy, evidence, where), *list_needs(policy, draft.rules)]
    if require_evidence:
        added = build_requirements(needs, [rule.id for rule in draft.rules])
        draft = draft._replace(rules=(*added, *draft.rules))
    else:
        note_needs(needs, log)
    found = tuple(sorted(log.found, key=lambda each: line_and_column(each.where)))
    written = render_policy(draft, found)
    parse_policy(written, registry=known)
    return ImportedPolicy(written, naming.entries, found)


def _translate_rules(
    items: Sequence[SourceItem], registry: Registry, log: ImportLog
) -> list[RuleDraft]:
    # INVARIANT: every rule of the peer is carried over, or an error says that it was left out.
    drafts: list[RuleDraft] = []
    ids: set[str] = set()
    for item in items:
        own = ImportLog()
        try:
            draft = translate_rule(item, own, registry)
        except UntranslatableError as error:
            which = f"rule `{own.rule}`" if own.rule else "a rule"
            message = f"{which} is left out: {error.problem}"
            log.add("left-out", error.where or item.where, message, error.help)
            continue
        name = _free_name(draft.id, ids)
        ids.add(name)
        if name != draft.id:
            message = f"a second rule `{draft.id}` is called `{name}`: an id names one rule"
            own.add("renamed-rule", item.where, message)
        log.add_all(own, name)
        drafts.append(draft._replace(id=name))
    abstains = [rule for rule in drafts if rule.verdict is Verdict.ABSTAIN]
    if abstains and any(rule.verdict is Verdict.DENY for rule in drafts):
        message = "where rules say ABSTAIN and DENY Lumyn abstains; here DENY wins, a proven no"
        log.add("precedence", abstains[0].where, message)
    return drafts


def _rename_codes(
    draft: PolicyDraft, names: Mapping[str, str], known: Registry, log: ImportLog
) -> PolicyDraft:
    """Return the draft with registered codes."""
    rules = []
    for rule in draft.rules:
        if rule.verdict is not Verdict.ALLOW:
            codes = tuple(dict.fromkeys(names[code] for code in rule.codes))
        else:
            codes = _allowing_codes(rule.codes, known)
            if lost := [code for code in rule.codes if code not in codes]:
                _note_allow(lost, rule.where, rule.id, log)
        rules.append(rule._replace(codes=codes))
    assert draft.code is not None
    if draft.verdict is not Verdict.ALLOW:
        code: str | None = names[draft.code]
    else:
        code = next(iter(_allowing_codes((draft.code,), known)), None)
        if code is None:
            _note_allow([draft.code], draft.source, None, log)
    return draft._replace(rules=tuple(rules), code=code)


def _allowing_codes(codes: Sequence[str], known: Registry) -> tuple[str, ...]:
    return tuple(code for code in codes if code in known and known[code].effect is Effect.ALLOW)


def _note_allow(codes: Sequence[str], where: str, rule: str | None, log: ImportLog) -> None:
    named = ", ".join(f"`{code}`" for code in codes)
    message = f"{named} is left out: ALLOW needs no reason, the rule's id tells what allowed"
    log.add("code-left-out", where, message, rule=rule)
