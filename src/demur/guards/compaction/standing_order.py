"""Orders to the assistant that a compaction brought in: nobody of standing gave them before.

A text rule says what reads like an order. It is traced to a sentence of the context before: most
of its words are there, and it says `not` as often, no more and no less. An order that only a
tool gave is not traced, and one in a message of those who rule must have been theirs.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from demur.codes.vocabulary import Surface
from demur.guards.compaction.message import ContextMessage, normalize_text, role_trust, split_words
from demur.guards.text_rules.rule import RuleSet
from demur.guards.text_rules.text import TextHit, hit_finding, scan_text
from demur.model.finding import Finding

__all__ = ["find_new_orders"]

_SENTENCE = re.compile("[^.!?\n\u3002\uff01\uff1f]+[.!?\u3002\uff01\uff1f]*")
_MAX_EXCERPT = 100
# The share of an order's telling words that one earlier sentence must hold.
_MIN_TRACED_SHARE = 0.7
_RULERS = 3
_NEGATIONS = frozenset(
    (
        *("not", "no", "never", "none", "without", "cannot", "dont", "t"),
        *("nicht", "kein", "keine", "nie", "ohne", "ne", "pas", "jamais", "sans", "nunca", "sin"),
    )
)
# Words of any order or any sentence: they trace nothing.
_COMMON_WORDS = frozenset(
    (
        *("a", "about", "agent", "ai", "all", "also", "always", "an", "and", "any", "are", "as"),
        *("asked", "asks", "assistant", "at", "be", "been", "by", "can", "didn", "do", "doesn"),
        *("don", "for", "forward", "from", "isn", "shouldn", "won"),
        *("future", "going", "has", "have", "he", "henceforth", "i", "if", "in", "instructed"),
        *("instructions", "into", "is", "it", "its", "model", "must", "my", "next", "now", "of"),
        *("on", "or", "our", "please", "prefers", "request", "requested", "rule", "rules", "said"),
        *("says", "session", "shall", "she", "should", "so", "that", "the", "their", "them"),
        *("then", "there", "these", "they", "this", "those", "to", "told", "turns", "user"),
        *("wants", "was", "we", "were", "when", "will", "with", "would", "you", "your"),
    )
)


class _OrderSentence(NamedTuple):
    telling: frozenset[str]
    negations: int
    trust: int


def find_new_orders(
    before: Sequence[ContextMessage], after: Sequence[ContextMessage], rules: RuleSet
) -> Iterator[Finding]:
    """Yield the orders in `after` that cannot be traced to `before`."""
    kept = {(message.role, normalize_text(message.content)) for message in before}
    sources: list[_OrderSentence] | None = None
    for index, message in enumerate(after):
        if (message.role, normalize_text(message.content)) in kept:
            continue
        for hit in scan_text(message.content, rules):
            if sources is None:
                sources = list(_iter_sources(before))
            if not _is_traced(_surrounding_sentences(message.content, hit), message.role, sources):
                yield _order_finding(hit, index, message)


def _iter_sources(before: Sequence[ContextMessage]) -> Iterator[_OrderSentence]:
    for message in before:
        for found in _SENTENCE.finditer(message.content):
            yield _analyze_sentence(found[0], role_trust(message.role))


def _analyze_sentence(text: str, rank: int) -> _OrderSentence:
    said = [word.text for word in split_words(text)]
    telling = frozenset(said) - _COMMON_WORDS - _NEGATIONS
    negations = sum(word in _NEGATIONS for word in said)
    return _OrderSentence(telling or frozenset(said), negations, rank)


def _surrounding_sentences(text: str, hit: TextHit) -> str:
    """Return the sentences that the hit touches."""
    return " ".join(
        found[0]
        for found in _SENTENCE.finditer(text)
        if found.start() < hit.end and found.end() > hit.start
    )


def _is_traced(order: str, role: str, sources: Sequence[_OrderSentence]) -> bool:
    wanted = _analyze_sentence(order, 0)
    needed = (
        _RULERS if role_trust(role) >= _RULERS else min(role_trust(role), role_trust("assistant"))
    )
    # INVARIANT: an order is not traced to a sentence that says the opposite.
    return any(
        source.trust >= needed
        and source.negations == wanted.negations
        and len(wanted.telling & source.telling) >= _MIN_TRACED_SHARE * len(wanted.telling)
        for source in sources
    )


def _order_finding(hit: TextHit, index: int, message: ContextMessage) -> Finding:
    seen = hit_finding(hit, Surface.COMPACTION)
    excerpt = normalize_text(message.content[hit.start : hit.end])[:_MAX_EXCERPT]
    evidence = {
        **seen.evidence,
        "source": f"{message.role} message",
        "excerpt": excerpt,
        "in": "after",
        "message": index,
        "role": message.role,
    }
    return msgspec.structs.replace(seen, evidence=evidence)
