"""The compaction guard: compare a compacted context with the one before. Codes: see `CODES`.

Five things must hold: the seal over the pins verifies; every pinned text is still there, word
for word, in its role and order; kept messages have the author and the order they had; no text
of a tool or user now stands in a system or developer message; and no order to the assistant
appeared that cannot be traced to a trusted role. A summary that keeps the rules and tells what
happened passes.

Limits: a paraphrase of a tool's text that reads like no order is not seen, nor is the loss of
text that was not pinned. `system` and `developer` are trusted alike. Spans are places in the
content of the message in `after` that the evidence names under `message`.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.guards.pinning import (
    ContextMessage,
    MessageWord,
    PinManifest,
    Role,
    find_lost_pins,
    is_sealed_by,
    make_pins,
    normalize_text,
    role_trust,
    split_words,
)
from demur.guards.rule_matching import TextHit, hit_finding, scan_text
from demur.guards.text_rules import RuleSet, builtin_rules
from demur.model.finding import Action, Finding, Span

_MIN_WORDS = 5
_RULERS = 3
_RUN_WORDS = 6
# The share of a user's message that, copied from one other message, makes it that one's text.
_MIN_COPIED_SHARE = 0.8


def find_changed_authors(
    before: Sequence[ContextMessage], after: Sequence[ContextMessage]
) -> Iterator[Finding]:
    """Yield a finding for each message that changed its author."""
    authors: dict[str, set[str]] = {}
    for message in before:
        authors.setdefault(normalize_text(message.content), set()).add(message.role)
    for index, message in enumerate(after):
        known = authors.get(normalize_text(message.content))
        if known is None:
            if message.role == "user" and (role := _main_source(message, before)):
                yield _author_finding(index, message, role)
        elif message.role not in known and _is_telling(message):
            yield _author_finding(index, message, min(known, key=role_trust))


def _is_telling(message: ContextMessage) -> bool:
    # A text that gained the trust of a system message is reported as promoted.
    return role_trust(message.role) < _RULERS and len(split_words(message.content)) >= _MIN_WORDS


def _main_source(message: ContextMessage, before: Sequence[ContextMessage]) -> str | None:
    """Return the role that said nearly all of this message before, if that was not the user."""
    mine = _message_runs(message)
    if not mine:
        return None
    said = set().union(
        *(_message_runs(m) for m in before if role_trust(m.role) >= role_trust("user"))
    )
    for other in before:
        if other.role in {"tool", "assistant"}:
            shared = (mine & _message_runs(other)) - said
            if len(shared) >= _MIN_COPIED_SHARE * len(mine):
                return other.role
    return None


def _message_runs(message: ContextMessage) -> set[tuple[str, ...]]:
    texts = [word.text for word in split_words(message.content)]
    return set(zip(*(texts[start:] for start in range(_RUN_WORDS)), strict=False))


def find_changed_order(
    before: Sequence[ContextMessage], after: Sequence[ContextMessage]
) -> Iterator[Finding]:
    """Yield a finding for the first kept message that comes too early or too late.

    System messages may be moved to the front, so they and the conversation are each compared
    with their own order.
    """
    for rulers in (True, False):
        row = [_message_key(m) for m in before if (role_trust(m.role) >= _RULERS) is rulers]
        known = set(row)
        place = 0
        for index, message in enumerate(after):
            key = _message_key(message)
            if (role_trust(message.role) >= _RULERS) is not rulers or key not in known:
                continue
            if len(split_words(message.content)) < _MIN_WORDS:
                continue
            try:
                place = row.index(key, place) + 1
            except ValueError:
                yield _kept_finding(index, message, "ORDER_CHANGED", "was moved", {})
                break


def _message_key(message: ContextMessage) -> tuple[str, str]:
    return message.role, normalize_text(message.content)


def _author_finding(index: int, message: ContextMessage, role: str) -> Finding:
    detail = f"was said by {'an' if role == 'assistant' else 'a'} {role} before"
    return _kept_finding(index, message, "AUTHOR_CHANGED", detail, {"author": role})


def _kept_finding(
    index: int, message: ContextMessage, rule: str, problem: str, facts: dict[str, Any]
) -> Finding:
    return Finding(
        code=ReasonCode.INTEGRITY_FAILURE,
        surface=Surface.COMPACTION,
        span=Span(start=0, end=len(message.content)),
        detail=f"a kept {message.role} message {problem}",
        evidence={
            "rule": rule,
            "segment": f"message {index}",
            "in": "after",
            "message": index,
            "role": message.role,
            **facts,
        },
    )


_WordRun = tuple[str, ...]


class _CopiedPassage(NamedTuple):
    """Words `first` to `last` of a message, found in an earlier one."""

    source: int
    first: int
    last: int


def find_promoted_text(
    before: Sequence[ContextMessage], after: Sequence[ContextMessage], min_words: int
) -> Iterator[Finding]:
    """Yield each passage of `length` words or more that now stands in a more trusted role."""
    kept = {(message.role, normalize_text(message.content)) for message in before}
    spoken: set[_WordRun] | None = None
    for index, message in enumerate(after):
        if (
            role_trust(message.role) < _RULERS
            or (message.role, normalize_text(message.content)) in kept
        ):
            continue
        if spoken is None:
            spoken = {
                run
                for m in before
                if role_trust(m.role) >= _RULERS
                for run in _word_runs(split_words(m.content), min_words)
            }
        told = split_words(message.content)
        for copy in _find_copies(told, before, spoken, min_words):
            yield _promotion_finding(index, message, told, copy, before[copy.source])


def _word_runs(message_words: Sequence[MessageWord], length: int) -> list[_WordRun]:
    texts = [word.text for word in message_words]
    return list(zip(*(texts[start:] for start in range(length)), strict=False))


def _find_copies(
    message_words: Sequence[MessageWord],
    before: Sequence[ContextMessage],
    trusted_runs: set[_WordRun],
    length: int,
) -> Iterator[_CopiedPassage]:
    places: dict[_WordRun, list[int]] = {}
    for place, run in enumerate(_word_runs(message_words, length)):
        if run not in trusted_runs:
            places.setdefault(run, []).append(place)
    if not places:
        return
    # The least trusted source counts: text of a tool stays a tool's if a user repeats it.
    sources = sorted(
        (role_trust(m.role), index)
        for index, m in enumerate(before)
        if role_trust(m.role) < _RULERS
    )
    taken: set[int] = set()
    for _, source in sources:
        found = {
            place
            for run in _word_runs(split_words(before[source].content), length)
            for place in places.get(run, ())
        } - taken
        taken |= found
        for first, last in _join_neighbours(sorted(found)):
            yield _CopiedPassage(source, first, last + length - 1)


def _join_neighbours(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each row of neighbouring places."""
    first = before = None
    for place in places:
        if before is not None and place != before + 1:
            assert first is not None
            yield first, before
            first = place
        first = place if first is None else first
        before = place
    if first is not None and before is not None:
        yield first, before


def _promotion_finding(
    index: int,
    message: ContextMessage,
    message_words: Sequence[MessageWord],
    copy: _CopiedPassage,
    origin: ContextMessage,
) -> Finding:
    # Every summary repeats text of the assistant.
    action = Action.WARN if origin.role == "assistant" else Action.BLOCK
    return Finding(
        code=ReasonCode.CONTEXT_INJECTION,
        surface=Surface.COMPACTION,
        span=Span(start=message_words[copy.first].start, end=message_words[copy.last].end),
        detail=f"text of a {origin.role} message now stands in a {message.role} message",
        evidence={
            "rule": "PROMOTED_TEXT",
            "source": origin.role,
            "in": "after",
            "message": index,
            "role": message.role,
            "from_message": copy.source,
            "words": copy.last - copy.first + 1,
        },
        action=action,
    )


_SENTENCE = re.compile("[^.!?\n\u3002\uff01\uff1f]+[.!?\u3002\uff01\uff1f]*")
_MAX_EXCERPT = 100
# The share of an order's telling words that one earlier sentence must hold.
_MIN_TRACED_SHARE = 0.7
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


SURFACE = Surface.COMPACTION
CODES = (ReasonCode.CONTEXT_INJECTION, ReasonCode.INTEGRITY_FAILURE)


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """A context before and after it was compacted, and what was pinned in it."""

    before: tuple[ContextMessage, ...]
    after: tuple[ContextMessage, ...]
    manifest: PinManifest | None = None
    context: str = ""


class CompactionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The key of the seals, and what counts.

    Without a manifest, all messages of `roles` in `before` are held to be pinned. A passage of
    `run` words is a copy. `rules` replaces the built-in text rules.
    """

    key: bytes | None = None
    roles: tuple[Role, ...] = ("system", "developer")
    run: int = 8
    rules: RuleSet | None = None

    def __post_init__(self) -> None:
        if self.run < 3:
            raise InputError("`run` is at least 3 words: shorter runs are in every text")


def check(event: Compaction, config: CompactionConfig) -> Iterator[Finding]:
    """Yield findings for pinned text that was lost, and for text that gained trust."""
    if not isinstance(event, Compaction):
        raise InputTypeError.wrong_type("the event", "a `Compaction`", event)
    for message in (*event.before, *event.after):
        if not isinstance(message, ContextMessage):
            raise InputTypeError.wrong_type("a message", "a `Message`", message)
    yield from _check_seal(event, config)
    pins = (
        make_pins(event.before, roles=config.roles)
        if event.manifest is None
        else event.manifest.pins
    )
    yield from find_lost_pins(pins, event.before, event.after)
    yield from find_changed_authors(event.before, event.after)
    yield from find_changed_order(event.before, event.after)
    yield from find_promoted_text(event.before, event.after, config.run)
    rules = config.rules or builtin_rules(SURFACE)
    yield from find_new_orders(event.before, event.after, rules)


def _check_seal(event: Compaction, config: CompactionConfig) -> Iterator[Finding]:
    """Yield what is wrong with the manifest itself. The expected seal is never shown."""
    manifest = event.manifest
    if manifest is None:
        return
    if config.key is None:
        yield _seal_finding("there is no key to verify the pins with", manifest)
    elif not is_sealed_by(manifest, config.key):
        yield _seal_finding("the seal over the pins does not verify", manifest)
    elif manifest.context != event.context:
        yield _seal_finding("the pins are those of another context", manifest)


def _seal_finding(problem: str, manifest: PinManifest) -> Finding:
    return Finding(
        code=ReasonCode.INTEGRITY_FAILURE,
        surface=SURFACE,
        detail=problem,
        evidence={
            "rule": "SEAL_BROKEN",
            "segment": "manifest",
            "expected_digest": manifest.seal[:100],
            "pins": len(manifest.pins),
        },
    )
