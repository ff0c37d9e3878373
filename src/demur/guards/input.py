"""The input guard: what a user's text asks for that should not be done. Codes: see `CODES`.

It finds harm by category, people in danger, orders that would replace the model's own, requests
for hidden instructions, and jailbreak wrappers. A wrapper (persona, game, fiction, hypothesis)
is neither permission nor proof of malice, so the guard takes it off and judges the rest. A
wrapper around a harmless or unclear objective is only recorded; a harmful objective is blocked
whatever the wrapper. A request with two meanings brings both and a question. A crisis finding
brings the help lines of the person's country, or directories that serve every country.

Limits: rules name mechanisms (an act, its object, a request), in English and fifteen other
languages; orders to ignore instructions and words of crisis are known in some twenty. The guard
does not see what a request means beyond its words, nor what several turns add up to. Help lines
change: the list holds well-known national ones and is no medical advice.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputTypeError
from demur.guards.personal_data import find_personal_data
from demur.guards.rule_matching import (
    PLAIN_READING,
    TextHit,
    finding_order,
    flooded_rules,
    hit_finding,
    is_mentioned,
    scan_text,
)
from demur.guards.text_rules import RuleSet, builtin_rules
from demur.model.finding import Action, Finding, Span
from demur.model.help_lines import UNKNOWN_LOCALE, find_help_resources

_SIGNALS = {
    "CRISIS_SELF_HARM_NOW": "self_harm",
    "CRISIS_OTHERS": "harm_to_others",
    "CRISIS_FRIEND": "concern_for_another",
}
_SUICIDE = "suicide"
# The fields of a help line that a person in need has to see.
_PUBLIC_FIELDS = ("name", "contact", "country")


def crisis_evidence(
    rule: str, locale: str | None = None, via: str = PLAIN_READING
) -> dict[str, Any]:
    """Return the evidence of a crisis finding: the rule, the signal, and where help is."""
    resources = [
        {name: value for name in _PUBLIC_FIELDS if (value := getattr(resource, name))}
        for resource in find_help_resources(locale)
    ]
    # The id of a rule in another language ends in the letters of the language.
    signals = (signal for name, signal in _SIGNALS.items() if rule.startswith(name))
    facts = {"rule": rule, "signal": next(signals, _SUICIDE)}
    encoded = {} if via == PLAIN_READING else {"via": via}
    return {**facts, "locale": locale or UNKNOWN_LOCALE, "resources": resources, **encoded}


# Removing a wrapper removes its clause; the request often follows in the same sentence.
_CLAUSE = re.compile(
    r"[.!?;:\n]+"
    r"|,? (?:and|then|but|now)(?= (?:please |then |now )?(?:tell|answer|write|explain|give|describe"
    r"|list|show|help|create|make|teach|provide|translate|summari[sz]e|what|how|why|who|where)\b)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+")
_REQUEST = re.compile(
    r"\?|^\W*(?:please\s+|now\s+|so\s+|then\s+)?(?:how|what|what's|why|who|when|where|which|can"
    r"|could|would|should|is|are|do|does|did|tell|write|explain|give|list|describe|create|make"
    r"|translate|summari[sz]e|generate|show|help|find|compare|suggest|recommend|calculate|solve"
    r"|compose|draft|outline|teach|provide|name|define|convert|fix|review|plan|sort|rewrite"
    r"|improve|build|let's)\b",
    re.IGNORECASE,
)
# Words about the role play itself: a sentence with them asks for nothing outside it.
_ABOUT_THE_ROLE = re.compile(
    r"\b(?:prompts?|respon[ds]\w*|repl(?:y|ies)|character|persona|mode|role|openai|chatgpt|gpt"
    r"|restrictions|polic(?:y|ies)|anything|everything|any(?:one)?|all (?:my|questions)|stay|obey"
    r"|rules|you (?:are|will|must|can|have|should)|your|understood|ready|ok|first question|user)\b"
    r"|\[[^\[\]]{0,80}\]",
    re.IGNORECASE,
)
_MIN_WORDS = 3
# If more words are left, not all of the wrapper was recognised.
_MAX_WORDS = 60
_STRONG_WEIGHT = 2
_DEMANDS_HARM = {"WRAP_DO_ANYTHING", "WRAP_LIST_OF_VICES", "WRAP_CARES_NOT"}


class Objective(NamedTuple):
    """The request without its wrappers, the wrappers, and whether the request is clear."""

    text: str
    wrappers: tuple[str, ...]
    clear: bool


def strip_wrapper(text: str, rules: RuleSet | None = None) -> Objective:
    """Return what `text` asks for once its wrappers are off; all of it where it has none."""
    chosen = builtin_rules(Surface.INPUT) if rules is None else rules
    return find_objective(text, scan_text(text, chosen))


def find_objective(text: str, hits: Sequence[TextHit]) -> Objective:
    """Return the objective of a text in which these rules were hit."""
    wrappers = tuple(dict.fromkeys(hit.rule.id for hit in hits if is_form(hit)))
    if not wrappers:
        return Objective(text, (), clear=bool(text.strip()))
    left = blank_wrappers(text, hits)
    return Objective(" ".join(left.split()).strip(" ,.;:-"), wrappers, _is_clear(left))


def blank_wrappers(text: str, hits: Sequence[TextHit]) -> str:
    """Return `text` with blanks for its wrappers, so that places in it stay what they were."""
    wrapped = [hit for hit in hits if is_wrapper(hit)]
    taken = [(hit.start, hit.end) for hit in hits if is_form(hit) and not is_wrapper(hit)]
    if wrapped:
        edges = [0, *(found.end() for found in _CLAUSE.finditer(text)), len(text)]
        kept = [hit for hit in hits if not is_form(hit) and hit.rule.action is not Action.WARN]
        clauses = _touched_clauses(wrapped, edges) - _touched_clauses(kept, edges)
        taken += [(edges[index], edges[index + 1]) for index in clauses]
    spans = sorted(taken)
    pieces: list[str] = []
    done = 0
    for start, end in spans:
        pieces += [text[done:start], " " * (end - max(start, done))]
        done = max(end, done)
    return "".join((*pieces, text[done:]))


def weigh_wrappers(hits: Iterable[TextHit]) -> int:
    """Return the weight of the wrappers; those that say that no rule applies count twice."""
    actions = {hit.rule.id: hit.rule.action for hit in hits if is_wrapper(hit)}
    return sum(1 if action is Action.WARN else _STRONG_WEIGHT for action in actions.values())


def is_wrapper(hit: TextHit) -> bool:
    """Return whether the hit is a form that loosens the model's rules."""
    return hit.rule.id.startswith("WRAP_")


def _demands_harm(hits: Iterable[TextHit]) -> bool:
    """Return whether a wrapper says itself that illegal or harmful content is wanted."""
    return any(hit.rule.id in _DEMANDS_HARM for hit in hits)


def is_form(hit: TextHit) -> bool:
    """Return whether the hit is a wrapper, or a frame that anybody may use."""
    return hit.rule.id.startswith(("WRAP_", "FRAME_"))


def _touched_clauses(hits: Iterable[TextHit], edges: Sequence[int]) -> set[int]:
    """Return the numbers of the clauses that the hits touch."""
    spans = ((bisect_right(edges, hit.start) - 1, bisect_left(edges, hit.end)) for hit in hits)
    return {index for span in spans for index in range(*span)}


def _is_clear(left: str) -> bool:
    """Return whether the remaining text is a request and little else."""
    if len(_WORD.findall(left)) > _MAX_WORDS:
        return False
    return any(
        len(_WORD.findall(clause)) >= _MIN_WORDS
        and (_REQUEST.search(clause) is not None or "?" in left)
        and _ABOUT_THE_ROLE.search(clause) is None
        for clause in _CLAUSE.split(left)
    )


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
    ReasonCode.DETAIL_EXCEEDS_NEED,
    ReasonCode.JAILBREAK_WRAPPER,
    ReasonCode.OBJECTIVE_MALICIOUS,
    ReasonCode.OBJECTIVE_UNCLEAR,
    ReasonCode.PII_DETECTED,
    ReasonCode.PLATFORM_PROHIBITED,
    ReasonCode.PROMPT_LEAK,
    ReasonCode.REASONING_EXTRACTION,
    ReasonCode.RISK_REDUCIBLE,
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
# Rules that find help wanted with crimes of any kind, one for each language.
_ANY_CRIME = "CRIME_HELP_"
# What a request with two meanings can mean, by its rule; the first is harmless.
_READINGS = {
    "UNCLEAR_GET_RID_OF": ("part from this person", "harm this person"),
}
# What goes too far in a request with a legitimate aim, and what would make it acceptable.
_LIMITS: dict[str, dict[str, Any]] = {
    "DETAIL_BEYOND_AIM": {"excess": "exact amounts, recipes or plans of something dangerous"},
    "RISK_WITHOUT_NET": {
        "risk": "a wide change that cannot be undone",
        "constraints": ["make a backup", "try it on a few first", "let a person review it"],
    },
}
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
    none. A wrapper with a harmful aim inside escalates from a weight of `escalate_from` on and
    blocks from `block_from`: each mechanism counts one, or two if it says outright that no rule
    applies. A wrapper that demands harm itself escalates from `block_from` on.
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
        asked = _drop_general(list(_requested_hits(text, hits, rules)))
        requested = list(_join_repeated(text, asked, many))
        found += [_make_finding(hit, others, event, config, many) for hit, others in requested]
        harmful = any(finding.action is not Action.WARN for finding in found)
        used = [hit for hit in hits if is_wrapper(hit) and not _is_mention(text, hit, many)]
        if used:
            found += _wrapper_findings(used, find_objective(text, hits), config, harmful=harmful)
    yield from sorted(found, key=finding_order)


def _requested_hits(text: str, hits: Sequence[TextHit], rules: RuleSet) -> Iterator[TextHit]:
    """Yield the hits that are no forms, including those found once the forms are removed."""
    # INVARIANT: a known wrapper before a harmful request hides nothing of it.
    plain = [hit for hit in hits if not is_form(hit)]
    yield from plain
    if len(plain) < len(hits):
        known = {hit.rule.id for hit in plain}
        left = scan_text(blank_wrappers(text, hits), rules)
        yield from (hit for hit in left if not is_form(hit) and hit.rule.id not in known)


def _drop_general(hits: list[TextHit]) -> Iterator[TextHit]:
    """Yield the hits without those of a rule for any crime where a rule names the kind of harm."""
    named = [
        hit
        for hit in hits
        if hit.rule.code.startswith("CONTENT_") and not hit.rule.id.startswith(_ANY_CRIME)
    ]
    for hit in hits:
        if not hit.rule.id.startswith(_ANY_CRIME) or not any(
            hit.start < other.end and other.start < hit.end and hit.rule.action is other.rule.action
            for other in named
        ):
            yield hit


def _join_repeated(
    text: str, hits: Iterable[TextHit], many: set[str]
) -> Iterator[tuple[TextHit, list[str]]]:
    """Yield each hit, with the other rules that found the same there.

    Hits that overlap are one finding if their rules have the same code and action. Words that are
    only mentioned are not joined with words that are used.
    """
    joined: dict[tuple[str, Action, bool], tuple[TextHit, list[str]]] = {}
    for hit in sorted(hits, key=lambda each: each.start):
        key = (hit.rule.code, hit.rule.action, _is_mention(text, hit, many))
        first, others = joined.get(key, (None, []))
        if first is None or hit.start >= first.end or hit.via != first.via:
            joined[key] = hit, []
            yield joined[key]
        elif hit.rule.id != first.rule.id:
            others.append(hit.rule.id)


def _is_mention(text: str, hit: TextHit, many: set[str]) -> bool:
    """Return whether the text only mentions the words of the hit; never if hits were cut off."""
    rule, start, end, _ = hit
    return rule.code in _MENTIONABLE and rule.id not in many and is_mentioned(text, start, end)


# What was asked about a person, in the order of the first match; `{}` is whose it is.
_PRIVACY_ACTS = (
    (r"dox+|leak|post|publish|expose|share|spread|revenge", "publishing what is private to {}"),
    (r"record|film|photo|camera|wiretap|eavesdrop|listen", "recording {} in secret"),
    (
        r"social media|facebook|instagram|snapchat|account|log ?in|password",
        "getting into {} accounts",
    ),
    (r"messages|texts|dms|whatsapp|e-?mails?|diary|history|photos", "reading {} private messages"),
    (r"track|follow|stalk|locat|where|when|gps|address", "keeping track of where {} is"),
)
_PERSON = re.compile(
    r"(?i)\bmy ((?:ex[ -]?)?(?:wife|husband|girlfriend|boyfriend|partner)|ex|spouse|fianc[eé]e?"
    r"|boss|manager|co-?worker|colleague|neighbou?r|classmate|teacher|(?:room|flat)-?mate"
    r"|mother|father|mom|mum|dad|sister|brother|friend|landlord|landlady|tenant|daughter|son|child|kid|employee"
    r"|crush|date|uncle|aunt|cousin)\b"
)


_POSSESSIVES = ("'s", "\u2019s")
_AGAINST_A_PERSON = frozenset({ReasonCode.CONTENT_HARASSMENT, ReasonCode.CONTENT_VIOLENCE})


def _find_person(text: str, hit: TextHit, *, owner: bool = False) -> str | None:
    """Return the person of the asker's that is meant, as `your boss`, or None.

    A person who only owns what is meant, as in `my boss's car`, counts as an `owner`.
    """
    asked = text[hit.start : hit.end + _MAX_EXCERPT]
    for person in _PERSON.finditer(asked):
        if owner or asked[person.end() :][:2] not in _POSSESSIVES:
            return f"your {person[1].lower()}"
    return None


def _privacy_evidence(text: str, hit: TextHit) -> dict[str, str]:
    """Return who is meant, and what was asked about them, in words that quote no name."""
    asked = text[hit.start : hit.end + _MAX_EXCERPT]
    target = _find_person(text, hit, owner=True) or "someone"
    acts = (act for form, act in _PRIVACY_ACTS if re.search(rf"(?i)\b(?:{form})", asked))
    act = next(acts, "getting {} private data")
    whose = target if act.endswith((" {}", " is", " secret")) else f"{target}'s"
    return {"target": target, "act": act.format(whose)}


def _workflow_evidence(rule_id: str) -> dict[str, Any]:
    """Return what would make a request acceptable, or what it could mean and a question."""
    if rule_id in _LIMITS:
        return _LIMITS[rule_id]
    readings = _READINGS[rule_id]
    return {
        "readings": list(readings),
        "question": "Do you want to {}, or to {}?".format(*readings),
    }


def _make_finding(
    hit: TextHit, others: list[str], event: InputText, config: InputConfig, many: set[str]
) -> Finding:
    finding = _describe_hit(hit, event, config, many)
    if not others:
        return finding
    evidence = {**finding.evidence, "also": sorted(set(others))}
    return msgspec.structs.replace(finding, evidence=evidence)


def _describe_hit(hit: TextHit, event: InputText, config: InputConfig, many: set[str]) -> Finding:
    finding = hit_finding(hit, SURFACE)
    if hit.rule.code == ReasonCode.CRISIS_ESCALATION:
        locale = event.locale or config.locale
        evidence = crisis_evidence(hit.rule.id, locale, hit.via)
        return msgspec.structs.replace(finding, evidence=evidence)
    if _is_mention(event.text, hit, many):
        evidence = {**finding.evidence, "mentioned": True}
        return msgspec.structs.replace(finding, evidence=evidence, action=Action.WARN)
    if hit.rule.id in _LIMITS or hit.rule.id in _READINGS:
        evidence = {**finding.evidence, **_workflow_evidence(hit.rule.id)}
        return msgspec.structs.replace(finding, evidence=evidence)
    if hit.rule.code == ReasonCode.CONTENT_PRIVACY:
        evidence = {**finding.evidence, **_privacy_evidence(event.text, hit)}
        return msgspec.structs.replace(finding, evidence=evidence)
    if hit.rule.code in _AGAINST_A_PERSON and (target := _find_person(event.text, hit)):
        evidence = {**finding.evidence, "target": target}
        return msgspec.structs.replace(finding, evidence=evidence)
    return finding


def _wrapper_findings(
    used: Sequence[TextHit], objective: Objective, config: InputConfig, *, harmful: bool
) -> Iterator[Finding]:
    """Yield one finding for all wrappers, and one if the objective is unclear."""
    span = Span(start=min(hit.start for hit in used), end=max(hit.end for hit in used))
    action, weight = Action.WARN, weigh_wrappers(used)
    if harmful:
        action = Action.ESCALATE if weight >= config.escalate_from else Action.WARN
        action = Action.BLOCK if weight >= config.block_from else action
    elif weight >= config.block_from and not objective.clear and _demands_harm(used):
        action = Action.ESCALATE
    rule, patterns = used[0].rule, list(dict.fromkeys(hit.rule.id for hit in used))
    shown = objective.text[:_MAX_EXCERPT] if objective.clear else ""
    yield Finding(
        code=ReasonCode.JAILBREAK_WRAPPER,
        surface=SURFACE,
        span=span,
        detail=rule.description,
        evidence={"rule": rule.id, "pattern": patterns, "objective": shown},
        action=action,
    )
    if not objective.clear and not harmful:
        yield Finding(
            code=ReasonCode.OBJECTIVE_UNCLEAR,
            surface=SURFACE,
            span=span,
            detail="the wrapper leaves no objective that could be judged",
            evidence={"rule": "OBJECTIVE_UNCLEAR", "wrapper": rule.id, "question": _QUESTION},
            action=Action.WARN,
        )
