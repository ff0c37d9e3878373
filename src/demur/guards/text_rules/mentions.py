"""Tell a phrase that is talked about from one that is used.

`The lesson quotes "ignore all previous instructions"` gives no order. A phrase is mentioned
where it stands in quotes, words around it speak of examples, tests or attacks, and nothing
outside the quotes asks to follow it.

Limits: looks at what is near, in English; a mention is still put on record.
"""

import re
from collections import Counter
from collections.abc import Iterable

from demur.guards.text_rules.matching import MAX_HITS
from demur.guards.text_rules.text import TextHit

__all__ = ["flooded_rules", "is_example", "is_mentioned"]

_REACH = 200
_WIDE_REACH = 400
_OPENS = "\"'`\u201c\u2018\u00ab\u300c\u300e"
_CLOSES = "\"'`\u201d\u2019\u00bb\u300d\u300f"
_OPENING = re.compile(rf"(?:^|[\s(\[{{=:,>#r])[{_OPENS}][^{_OPENS}{_CLOSES}]{{0,80}}$")
_CLOSING = re.compile(rf"^[^{_OPENS}{_CLOSES}]{{0,120}}[{_CLOSES}]")
_TALK = re.compile(
    r"\b(?:examples?|phrases?|quot(?:e|es|ed|ing)|strings?|literal(?:ly)?|samples?|fixtures?"
    r"|detect(?:s|ed|ing|ion|ors?)?|prompt[- ]injections?|injections?|jailbreaks?|attack(?:s|ers?)?"
    r"|tests?|test(?:ed|ing)|train(?:ing|er|ers)|lessons?|learners|students|slides?|quiz|tutorial"
    r"|guidance|documentation|docs|readme|changelog|release notes|false positives?|blog|articles?"
    r"|papers?|benchmark|writeup|reports?|postmortem|explain(?:s|ed|ing)?|describ(?:es|ed|ing)"
    r"|classif\w+|flag(?:s|ged)?|untrusted|refused?|analysts?|recogni[sz]e|polic(?:y|ies)|called"
    r"|means?|known as|such as|says|said|saying|mentions?|includes?|contains?|containing"
    r"|assert\w*|const|regex|patterns?)\b",
    re.IGNORECASE,
)
# Words that only a text about attacks uses, and words that introduce an example.
_ATTACK_TALK = re.compile(
    r"\b(?:prompt[- ]injections?|injections? attacks?|jailbreak(?:s|ing)?|attackers?|payloads?"
    r"|malicious|adversar(?:y|ial)|red[- ]team(?:ing)?|owasp|threat model|guardrails?"
    r"|untrusted (?:text|content|input))\b",
    re.IGNORECASE,
)
_LEADS_IN = re.compile(
    r"(?:\be\.g\.|\b(?:for (?:example|instance)|such as|like|says?|writes?|phrase)\b"
    rf"|[:>*|{_OPENS}-])[^.!?]{{0,60}}$",
    re.IGNORECASE,
)
_FOLLOW = re.compile(
    r"\b(?:follow|obey|execute|carry out|comply with|act on|do what|apply|now do|adopt) "
    r"(?:it|this|that|these|them|the (?:following|quote|quoted|instructions?|text|phrase)|what)\b",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:not|n't|never|without|instead of|rather than)\b[\w\s]{0,48}$", re.IGNORECASE
)


def flooded_rules(hits: Iterable[TextHit]) -> set[str]:
    """Return the rules that reached the limit of hits: a use may follow the mentions."""
    counted = Counter(hit.rule.id for hit in hits)
    return {rule for rule, count in counted.items() if count >= MAX_HITS}


def is_mentioned(text: str, start: int, end: int) -> bool:
    """Return whether `text[start:end]` is mentioned rather than used."""
    before, after = text[max(0, start - _REACH) : start], text[end : end + _REACH]
    opened, closed = _OPENING.search(before), _CLOSING.search(after)
    if opened is None or closed is None:
        return False
    around = f"{before[: opened.start() + 1]} {after[closed.end() :]}"
    return _TALK.search(around) is not None and not _asks_to_follow(around)


def is_example(text: str, start: int, end: int) -> bool:
    """Return whether `text[start:end]` is an example in a text that explains attacks."""
    before, after = text[max(0, start - _WIDE_REACH) : start], text[end : end + _WIDE_REACH]
    words = {word.lower() for word in _ATTACK_TALK.findall(f"{before} {after}")}
    return len(words) > 1 and _LEADS_IN.search(before) is not None and not _asks_to_follow(before)


def _asks_to_follow(around: str) -> bool:
    return any(not _NEGATED.search(around[: asked.start()]) for asked in _FOLLOW.finditer(around))
