"""Import a policy of the peer: everything it says, said here, and every difference named."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from demur.codes.registry import Registry
from demur.codes.vocabulary import Effect, Verdict
from demur.errors import PolicyError
from demur.policy.loader import parse_policy
from demur.policy.peer.codes import extended, name_codes, uses_of
from demur.policy.peer.draft import Draft, RuleDraft
from demur.policy.peer.head import read_head, required_evidence
from demur.policy.peer.needs import asking_rules, needs_of, remark_needs, required
from demur.policy.peer.remark import CannotCarryError, Remark, Remarks
from demur.policy.peer.rule import carry_rule
from demur.policy.peer.write import policy_text
from demur.source.item import Item
from demur.source.reading import read_source

__all__ = ["Imported", "import_policy"]


class Imported(NamedTuple):
    """The translated policy, the registry entries it needs, and all differences."""

    text: str
    entries: tuple[dict[str, Any], ...]
    remarks: tuple[Remark, ...]


def import_policy(
    text: str,
    name: str,
    *,
    registry: Registry,
    domain: str | None = None,
    described: Mapping[str, str] | None = None,
    require_evidence: bool = False,
) -> Imported:
    """Translate Lumyn's policy in `text`; diagnostics call it `name`.

    Raises:
        PolicyError: It is not a Lumyn policy; carries every problem.
        InputError: Its codes need a domain.
    """
    source = read_source(name, text, PolicyError)
    remarks = Remarks()
    draft = read_head(source, name, remarks)
    draft = draft._replace(rules=tuple(_rules(source.value["rules"].value, registry, remarks)))
    naming = name_codes(uses_of(draft), registry, domain, described or {}, remarks)
    known = extended(registry, domain, naming.entries)
    draft = _named(draft, naming.names, known, remarks)
    policy = parse_policy(policy_text(draft), registry=known)
    evidence, where = required_evidence(source, remarks)
    needs = [*required(policy, evidence, where), *needs_of(policy, draft.rules)]
    if require_evidence:
        added = asking_rules(needs, [rule.id for rule in draft.rules])
        draft = draft._replace(rules=(*added, *draft.rules))
    else:
        remark_needs(needs, remarks)
    found = tuple(sorted(remarks.found, key=lambda remark: _position(remark.where)))
    written = policy_text(draft, found)
    parse_policy(written, registry=known)
    return Imported(written, naming.entries, found)


def _position(where: str) -> tuple[int, ...]:
    """Return line and column of a place; a whole file comes before its lines."""
    return tuple(int(part) for part in where.split(":")[-2:] if part.isdecimal())


def _rules(items: Sequence[Item], registry: Registry, remarks: Remarks) -> list[RuleDraft]:
    # INVARIANT: every rule of the peer is carried over, or an error says that it was left out.
    drafts: list[RuleDraft] = []
    ids: set[str] = set()
    for item in items:
        own = Remarks()
        try:
            draft = carry_rule(item, own, registry)
        except CannotCarryError as error:
            which = f"rule `{own.rule}`" if own.rule else "a rule"
            message = f"{which} is left out: {error.problem}"
            remarks.add("left-out", error.where or item.where, message, error.help)
            continue
        name = _free(draft.id, ids)
        ids.add(name)
        if name != draft.id:
            message = f"a second rule `{draft.id}` is called `{name}`: an id names one rule"
            own.add("renamed-rule", item.where, message)
        remarks.take(own, name)
        drafts.append(draft._replace(id=name))
    _remark_precedence(drafts, remarks)
    return drafts


def _free(name: str, taken: set[str]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _remark_precedence(drafts: Sequence[RuleDraft], remarks: Remarks) -> None:
    abstains = [rule for rule in drafts if rule.verdict is Verdict.ABSTAIN]
    if abstains and any(rule.verdict is Verdict.DENY for rule in drafts):
        message = "where rules say ABSTAIN and DENY Lumyn abstains; here DENY wins, a proven no"
        remarks.add("precedence", abstains[0].where, message)


def _named(draft: Draft, names: Mapping[str, str], known: Registry, remarks: Remarks) -> Draft:
    """Return the draft with registered codes."""
    rules = []
    for rule in draft.rules:
        if rule.verdict is not Verdict.ALLOW:
            codes = tuple(dict.fromkeys(names[code] for code in rule.codes))
        else:
            codes = _allowing(rule.codes, known)
            if lost := [code for code in rule.codes if code not in codes]:
                _remark_allow(lost, rule.where, rule.id, remarks)
        rules.append(rule._replace(codes=codes))
    assert draft.code is not None
    if draft.verdict is not Verdict.ALLOW:
        code: str | None = names[draft.code]
    else:
        code = next(iter(_allowing((draft.code,), known)), None)
        if code is None:
            _remark_allow([draft.code], draft.source, None, remarks)
    return draft._replace(rules=tuple(rules), code=code)


def _allowing(codes: Sequence[str], known: Registry) -> tuple[str, ...]:
    return tuple(code for code in codes if code in known and known[code].effect is Effect.ALLOW)


def _remark_allow(codes: Sequence[str], where: str, rule: str | None, remarks: Remarks) -> None:
    named = ", ".join(f"`{code}`" for code in codes)
    message = f"{named} is left out: ALLOW needs no reason, the rule's id tells what allowed"
    remarks.add("code-left-out", where, message, rule=rule)
