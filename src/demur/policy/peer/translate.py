"""Import a policy of the peer: everything it says, said here, and every difference named."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from demur.codes.registry import Registry
from demur.codes.vocabulary import Effect, Verdict
from demur.errors import PolicyError
from demur.policy.loader import parse_policy
from demur.policy.peer.codes import extend_registry, name_codes, list_code_uses
from demur.policy.peer.draft import PolicyDraft, RuleDraft
from demur.policy.peer.head import read_head, read_required_evidence
from demur.policy.peer.needs import build_requirements, list_needs, note_needs, required_needs
from demur.policy.peer.remark import UntranslatableError, ImportDiagnostic, ImportDiagnostics
from demur.policy.peer.rule import translate_rule
from demur.policy.peer.write import render_policy
from demur.source.item import SourceItem
from demur.source.reading import read_source

__all__ = ["ImportedPolicy", "import_policy"]


class ImportedPolicy(NamedTuple):
    """The translated policy, the registry entries it needs, and all differences."""

    text: str
    entries: tuple[dict[str, Any], ...]
    remarks: tuple[ImportDiagnostic, ...]


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
    remarks = ImportDiagnostics()
    draft = read_head(source, name, remarks)
    draft = draft._replace(
        rules=tuple(_translate_rules(source.value["rules"].value, registry, remarks))
    )
    naming = name_codes(list_code_uses(draft), registry, domain, descriptions or {}, remarks)
    known = extend_registry(registry, domain, naming.entries)
    draft = _rename_codes(draft, naming.names, known, remarks)
    policy = parse_policy(render_policy(draft), registry=known)
    evidence, where = read_required_evidence(source, remarks)
    needs = [*required_needs(policy, evidence, where), *list_needs(policy, draft.rules)]
    if require_evidence:
        added = build_requirements(needs, [rule.id for rule in draft.rules])
        draft = draft._replace(rules=(*added, *draft.rules))
    else:
        note_needs(needs, remarks)
    found = tuple(sorted(remarks.found, key=lambda remark: _line_and_column(remark.where)))
    written = render_policy(draft, found)
    parse_policy(written, registry=known)
    return ImportedPolicy(written, naming.entries, found)


def _line_and_column(where: str) -> tuple[int, ...]:
    """Return line and column of a place; a whole file comes before its lines."""
    return tuple(int(part) for part in where.split(":")[-2:] if part.isdecimal())


def _translate_rules(
    items: Sequence[SourceItem], registry: Registry, diagnostics: ImportDiagnostics
) -> list[RuleDraft]:
    # INVARIANT: every rule of the peer is carried over, or an error says that it was left out.
    drafts: list[RuleDraft] = []
    ids: set[str] = set()
    for item in items:
        own = ImportDiagnostics()
        try:
            draft = translate_rule(item, own, registry)
        except UntranslatableError as error:
            which = f"rule `{own.rule}`" if own.rule else "a rule"
            message = f"{which} is left out: {error.problem}"
            diagnostics.add("left-out", error.where or item.where, message, error.help)
            continue
        name = _unused_name(draft.id, ids)
        ids.add(name)
        if name != draft.id:
            message = f"a second rule `{draft.id}` is called `{name}`: an id names one rule"
            own.add("renamed-rule", item.where, message)
        diagnostics.add_all(own, name)
        drafts.append(draft._replace(id=name))
    _note_precedence(drafts, diagnostics)
    return drafts


def _unused_name(name: str, taken: set[str]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _note_precedence(drafts: Sequence[RuleDraft], diagnostics: ImportDiagnostics) -> None:
    abstains = [rule for rule in drafts if rule.verdict is Verdict.ABSTAIN]
    if abstains and any(rule.verdict is Verdict.DENY for rule in drafts):
        message = "where rules say ABSTAIN and DENY Lumyn abstains; here DENY wins, a proven no"
        diagnostics.add("precedence", abstains[0].where, message)


def _rename_codes(
    draft: PolicyDraft, names: Mapping[str, str], known: Registry, diagnostics: ImportDiagnostics
) -> PolicyDraft:
    """Return the draft with registered codes."""
    rules = []
    for rule in draft.rules:
        if rule.verdict is not Verdict.ALLOW:
            codes = tuple(dict.fromkeys(names[code] for code in rule.codes))
        else:
            codes = _allowing_codes(rule.codes, known)
            if lost := [code for code in rule.codes if code not in codes]:
                _note_allow(lost, rule.where, rule.id, diagnostics)
        rules.append(rule._replace(codes=codes))
    assert draft.code is not None
    if draft.verdict is not Verdict.ALLOW:
        code: str | None = names[draft.code]
    else:
        code = next(iter(_allowing_codes((draft.code,), known)), None)
        if code is None:
            _note_allow([draft.code], draft.source, None, diagnostics)
    return draft._replace(rules=tuple(rules), code=code)


def _allowing_codes(codes: Sequence[str], known: Registry) -> tuple[str, ...]:
    return tuple(code for code in codes if code in known and known[code].effect is Effect.ALLOW)


def _note_allow(
    codes: Sequence[str], where: str, rule: str | None, diagnostics: ImportDiagnostics
) -> None:
    named = ", ".join(f"`{code}`" for code in codes)
    message = f"{named} is left out: ALLOW needs no reason, the rule's id tells what allowed"
    diagnostics.add("code-left-out", where, message, rule=rule)
