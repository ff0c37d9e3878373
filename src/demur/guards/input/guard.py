"""Find what a user's text asks for that should not be done. Codes: see `CODES`.

Harm by category, people in danger, orders that would replace the model's own, requests for
its hidden instructions, and jailbreak wrappers. Form comes before intent: a wrapper is taken
off and what is left is judged. Around a harmless objective it is only put on record; a harmful
objective stays blocked whatever the wrapper; one that stays unclear is said to be.

Limits: rules name mechanisms (an act, its object, a request), mostly in English; orders to
ignore instructions and words of crisis are also known in some twenty other languages. What a
request means beyond its words, and what several turns add up to, is not seen.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputTypeError
from demur.guards.input.crisis import crisis_evidence
from demur.guards.input.wrappers import (
    Objective,
    blank_wrappers,
    is_form,
    is_wrapper,
    find_objective,
    weigh_wrappers,
)
from demur.guards.secrets.personal_text import find_personal_data
from demur.guards.text_rules.mentions import flooded_rules, is_mentioned
from demur.guards.text_rules.rule import RuleSet
from demur.guards.text_rules.rules import builtin_rules
from demur.guards.text_rules.text import TextHit, hit_finding, scan_text
from demur.model.finding import Action, Finding, Span

__all__ = ["CODES", "SURFACE", "InputConfig", "InputText", "check"]

SURFACE = Surface.INPUT
CODES: tuple[str, ...] = (
    ReasonCode.CONTENT_ADVICE,
    ReasonCode.CONTENT_CBRN,
    ReasonCode.CONTENT_CRIME,
    ReasonCode.CONTENT_CSAE,
    ReasonCode.CONTENT_CYBER,
    ReasonCode.CONTENT_DANGEROUS,
    ReasonCode.CONTENT_DEFAMATION,
    ReasonCode.CONTENT_ELECTION,
    ReasonCode.CONTENT_FRAUD,
    ReasonCode.CONTENT_HARASSMENT,
    ReasonCode.CONTENT_HATE,
    ReasonCode.CONTENT_MISINFORMATION,
    ReasonCode.CONTENT_PRIVACY,
    ReasonCode.CONTENT_PROFANITY,
    ReasonCode.CONTENT_SELF_HARM,
    ReasonCode.CONTENT_SEXUAL,
    ReasonCode.CONTENT_SOCIAL_ENGINEERING,
    ReasonCode.CONTENT_VIOLENCE,
    ReasonCode.CONTENT_WEAPONS,
    ReasonCode.CONTEXT_INJECTION,
    ReasonCode.CRISIS_ESCALATION,
    ReasonCode.JAILBREAK_WRAPPER,
    ReasonCode.OBJECTIVE_MALICIOUS,
    ReasonCode.OBJECTIVE_UNCLEAR,
    ReasonCode.PII_DETECTED,
    ReasonCode.PROMPT_LEAK,
    ReasonCode.REASONING_EXTRACTION,
    ReasonCode.SAFETY_EVASION,
)
# Phrases of these codes can be mentioned without being used.
_MENTIONABLE = frozenset(
    {
        ReasonCode.CONTEXT_INJECTION,
        ReasonCode.JAILBREAK_WRAPPER,
        ReasonCode.PROMPT_LEAK,
        ReasonCode.REASONING_EXTRACTION,
        ReasonCode.SAFETY_EVASION,
    }
)
_MAX_EXCERPT = 120
_QUESTION = "What would you like to achieve, in one plain sentence?"


class InputText(NamedTuple):
    """A user's text, and the user's locale, where known."""

    text: str
    locale: str | None = None


class InputConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the input guard.

    `rules` replaces the built-in ones. `locale` is used for users whose own is not known; it
    chooses the help lines. `personal` is the action for certain personal data; None looks for
    none. A wrapper without a harmless objective escalates from a weight of `escalate_from`
    on and blocks from `block_from`: each mechanism counts one, or two if it says outright that
    no rule applies.
    """

    rules: RuleSet | None = None
    locale: str | None = None
    personal: Action | None = Action.WARN
    escalate_from: int = 2
    block_from: int = 4


_DEFAULT = InputConfig()


def check(event: InputText, config: InputConfig = _DEFAULT) -> Iterator[Finding]:
    """Yield the findings in a user's text, in the order of spans."""
    text = event.text
    if not isinstance(text, str):
        raise InputTypeError.wrong_type("a user's text", "a string", text)
    rules = builtin_rules(SURFACE) if config.rules is None else config.rules
    found = list(find_personal_data(text, config.personal, SURFACE))
    if hits := scan_text(text, rules):
        many = flooded_rules(hits)
        found += [
            _make_finding(hit, event, config, many) for hit in _requested_hits(text, hits, rules)
        ]
        harmful = any(seen.action is not Action.WARN for seen in found)
        used = [hit for hit in hits if is_wrapper(hit) and not _is_mention(text, hit, many)]
        if used:
            found += _wrapper_findings(used, find_objective(text, hits), config, harmful=harmful)
    yield from sorted(found, key=_sort_key)


def _requested_hits(text: str, hits: Sequence[TextHit], rules: RuleSet) -> Iterator[TextHit]:
    """Yield the hits that are no forms, including those found once the forms are removed."""
    # INVARIANT: a known wrapper before a harmful request hides nothing of it.
    plain = [hit for hit in hits if not is_form(hit)]
    yield from plain
    if len(plain) < len(hits):
        known = {hit.rule.id for hit in plain}
        left = scan_text(blank_wrappers(text, hits), rules)
        yield from (hit for hit in left if not is_form(hit) and hit.rule.id not in known)


def _is_mention(text: str, hit: TextHit, many: set[str]) -> bool:
    """Return whether the text only mentions the words of the hit; never if hits were cut off."""
    return (
        hit.rule.code in _MENTIONABLE
        and hit.rule.id not in many
        and is_mentioned(text, hit.start, hit.end)
    )


def _make_finding(hit: TextHit, event: InputText, config: InputConfig, many: set[str]) -> Finding:
    seen = hit_finding(hit, SURFACE)
    if hit.rule.code == ReasonCode.CRISIS_ESCALATION:
        locale = event.locale or config.locale
        return msgspec.structs.replace(seen, evidence=crisis_evidence(hit, locale))
    if _is_mention(event.text, hit, many):
        evidence = {**seen.evidence, "mentioned": True}
        return msgspec.structs.replace(seen, evidence=evidence, action=Action.WARN)
    return seen


def _wrapper_findings(
    used: Sequence[TextHit], objective: Objective, config: InputConfig, *, harmful: bool
) -> Iterator[Finding]:
    """Yield one finding for all wrappers, and one if the objective is unclear."""
    span = Span(start=min(hit.start for hit in used), end=max(hit.end for hit in used))
    harmless = objective.clear and not harmful
    yield Finding(
        code=ReasonCode.JAILBREAK_WRAPPER,
        surface=SURFACE,
        span=span,
        detail=used[0].rule.description,
        evidence={
            "rule": used[0].rule.id,
            "pattern": list(dict.fromkeys(hit.rule.id for hit in used)),
            "objective": objective.text[:_MAX_EXCERPT] if objective.clear else "",
        },
        action=Action.WARN if harmless else _grade_wrappers(weigh_wrappers(used), config),
    )
    if not objective.clear and not harmful:
        yield Finding(
            code=ReasonCode.OBJECTIVE_UNCLEAR,
            surface=SURFACE,
            span=span,
            detail="the wrapper leaves no objective that could be judged",
            evidence={"rule": "OBJECTIVE_UNCLEAR", "question": _QUESTION},
            action=Action.WARN,
        )


def _grade_wrappers(points: int, config: InputConfig) -> Action:
    if points >= config.block_from:
        return Action.BLOCK
    return Action.ESCALATE if points >= config.escalate_from else Action.WARN


def _sort_key(seen: Finding) -> tuple[int, int, str]:
    assert seen.span is not None
    return seen.span.start, seen.span.end, str(seen.evidence["rule"])
