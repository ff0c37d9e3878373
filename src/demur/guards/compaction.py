"""The compaction guard: compare a compacted context with the one before. Codes: see `CODES`.

Five things must hold: the seal over the pins verifies; every pinned text is still there, word
for word, in its role and order; kept messages have the author and the order they had; no text
of a tool or user now stands in a system or developer message; and no order to the assistant
appeared that cannot be traced to a trusted role. In a system or developer message, a new
permission, and words that take a kept rule back, are such orders. A summary that keeps the rules
and tells what happened passes.

Limits: a paraphrase of a tool's text that reads like no order is not seen, nor is the loss of
text that was not pinned. `system` and `developer` are trusted alike. Spans are places in the
content of the message in `after` that the evidence names under `message`.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import count
from typing import NamedTuple

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.guards.pinning import (
    TRUST,
    ContextMessage,
    PinManifest,
    Role,
    find_lost_pins,
    is_sealed_by,
    make_pins,
    normalize_text,
    split_words,
)
from demur.guards.rule_matching import hit_finding, scan_text
from demur.guards.text_rules import RuleSet, builtin_rules
from demur.model.finding import Action, Finding, Span

_Messages = Sequence[ContextMessage]
_WordRun = tuple[str, ...]
_MIN_WORDS = 5
# The trust in system and developer messages.
_RULERS = 3
_RUN_WORDS = 6
# The share of a user's message that, copied from one other message, makes it that one's text.
_MIN_COPIED_SHARE = 0.8


def _word_runs(text: str, length: int) -> list[_WordRun]:
    words = [word.text for word in split_words(text)]
    return list(zip(*(words[start:] for start in range(length)), strict=False))


def _is_telling(message: ContextMessage) -> bool:
    return len(split_words(message.content)) >= _MIN_WORDS


def find_changed_authors(before: _Messages, after: _Messages) -> Iterator[Finding]:
    """Yield a finding for each message that changed its author."""
    authors: dict[str, set[str]] = {}
    for message in before:
        authors.setdefault(normalize_text(message.content), set()).add(message.role)
    for index, message in enumerate(after):
        roles = authors.get(normalize_text(message.content))
        author: str | None = None
        if roles is None:
            author = _main_source(message, before) if message.role == "user" else None
        # A text that gained the trust of a system message is reported as promoted.
        elif message.role not in roles and message.trust < _RULERS and _is_telling(message):
            author = min(roles, key=TRUST.__getitem__)
        if author is not None:
            problem = f"was said by {'an' if author == 'assistant' else 'a'} {author} before"
            yield _finding(index, message, "AUTHOR_CHANGED", problem, author=author)


def _main_source(message: ContextMessage, before: _Messages) -> str | None:
    """Return the role that said nearly all of this message before, if that was not the user."""
    mine = set(_word_runs(message.content, _RUN_WORDS))
    if not mine:
        return None
    trusted = (m.content for m in before if m.trust >= TRUST["user"])
    spoken = set().union(*(_word_runs(text, _RUN_WORDS) for text in trusted))
    for other in before:
        if other.role in {"tool", "assistant"}:
            shared = mine.intersection(_word_runs(other.content, _RUN_WORDS)) - spoken
            if len(shared) >= _MIN_COPIED_SHARE * len(mine):
                return other.role
    return None


def find_changed_order(before: _Messages, after: _Messages) -> Iterator[Finding]:
    """Yield a finding for the first kept message that comes too early or too late.

    System messages may be moved to the front, so they and the conversation are each compared
    with their own order.
    """
    for rulers in (True, False):
        row = [message.key for message in before if (message.trust >= _RULERS) is rulers]
        known = set(row)
        place = 0
        for index, message in enumerate(after):
            ruling = message.trust >= _RULERS
            if ruling is not rulers or message.key not in known or not _is_telling(message):
                continue
            try:
                place = row.index(message.key, place) + 1
            except ValueError:
                yield _finding(index, message, "ORDER_CHANGED", "was moved")
                break


def _finding(index: int, message: ContextMessage, rule: str, problem: str, **facts: str) -> Finding:
    place = {"in": "after", "message": index, "role": message.role}
    return Finding(
        code=ReasonCode.INTEGRITY_FAILURE,
        surface=Surface.COMPACTION,
        span=Span(start=0, end=len(message.content)),
        detail=f"a kept {message.role} message {problem}",
        evidence={"rule": rule, "segment": f"message {index}", **place, **facts},
    )


class _CopiedPassage(NamedTuple):
    """Words `first` to `last` of a message, found in an earlier one."""

    source: int
    first: int
    last: int


def find_promoted_text(before: _Messages, after: _Messages, min_words: int) -> Iterator[Finding]:
    """Yield each passage of `min_words` words or more that now stands in a more trusted role."""
    kept = {message.key for message in before}
    rulers = (message.content for message in before if message.trust >= _RULERS)
    trusted_runs: set[_WordRun] | None = None
    for index, message in enumerate(after):
        if message.trust < _RULERS or message.key in kept:
            continue
        if trusted_runs is None:
            trusted_runs = {run for text in rulers for run in _word_runs(text, min_words)}
        words = split_words(message.content)
        for source, first, last in _find_copies(message, before, trusted_runs, min_words):
            role = before[source].role
            place = {"in": "after", "message": index, "role": message.role}
            copied = {"from_message": source, "words": last - first + 1}
            yield Finding(
                code=ReasonCode.CONTEXT_INJECTION,
                surface=Surface.COMPACTION,
                span=Span(start=words[first].start, end=words[last].end),
                detail=f"text of a {role} message now stands in a {message.role} message",
                evidence={"rule": "PROMOTED_TEXT", "source": role, **place, **copied},
                # Every summary repeats text of the assistant.
                action=Action.WARN if role == "assistant" else Action.BLOCK,
            )


def _find_copies(
    message: ContextMessage, before: _Messages, trusted_runs: set[_WordRun], length: int
) -> Iterator[_CopiedPassage]:
    places: dict[_WordRun, list[int]] = {}
    for place, run in enumerate(_word_runs(message.content, length)):
        if run not in trusted_runs:
            places.setdefault(run, []).append(place)
    if not places:
        return
    # The least trusted source counts: text of a tool stays a tool's if a user repeats it.
    sources = sorted((m.trust, index) for index, m in enumerate(before) if m.trust < _RULERS)
    taken: set[int] = set()
    for _, source in sources:
        runs = _word_runs(before[source].content, length)
        found = {place for run in runs for place in places.get(run, ())} - taken
        taken |= found
        # Neighbouring places are one passage.
        for first in sorted(place for place in found if place - 1 not in found):
            last = next(place for place in count(first) if place + 1 not in found)
            yield _CopiedPassage(source, first, last + length - 1)


_SENTENCE = re.compile("[^.!?\n\u3002\uff01\uff1f]+[.!?\u3002\uff01\uff1f]*")
_MAX_EXCERPT = 100
# The share of an order's telling words that one earlier sentence must hold.
_MIN_TRACED_SHARE = 0.7
_NEGATING = (
    "not no never none without cannot dont t nicht kein keine nie ohne ne pas jamais sans nunca sin"
)
_NEGATIONS = frozenset(_NEGATING.split())
# Words of any order or any sentence: they trace nothing.
_COMMON = """
a about agent ai all also always an and any are as asked asks assistant at be been by can didn do
doesn don for forward from isn shouldn won future going has have he henceforth i if in instructed
instructions into is it its model must my next now of on or our please prefers request requested
rule rules said says session shall she should so that the their them then there these they this
those to told turns user wants was we were when will with would you your
"""
_COMMON_WORDS = frozenset(_COMMON.split())


# Rules that count in system and developer messages only, and only beside a kept rule.
_SYSTEM_ONLY = "SYSTEM_"
_BESIDE_RULE = "SYSTEM_BESIDE_"


class _OrderSentence(NamedTuple):
    telling: frozenset[str]
    negations: int
    trust: int


def find_new_orders(
    before: _Messages, after: _Messages, rules: RuleSet, pinned_texts: Sequence[str] = ()
) -> Iterator[Finding]:
    """Yield the orders, permissions and revocations in `after` that `before` does not hold."""
    kept = {message.key for message in before}
    rulers = (message.content for message in before if message.trust >= _RULERS)
    kept_rules = _compile_texts({*rulers, *pinned_texts})
    sources: list[_OrderSentence] | None = None
    for index, message in enumerate(after):
        if message.key in kept:
            continue
        # INVARIANT: a rule that was kept does not hide what was added to it.
        text, count = kept_rules.subn(_blank_match, message.content)
        beside_rule = count > 0 and message.trust >= _RULERS
        for hit in scan_text(text, rules):
            if hit.rule.id.startswith(_BESIDE_RULE) and not beside_rule:
                continue
            if hit.rule.id.startswith(_SYSTEM_ONLY) and message.trust < _RULERS:
                continue
            if sources is None:
                sources = [
                    _analyze_sentence(found[0], source.trust)
                    for source in before
                    for found in _SENTENCE.finditer(source.content)
                ]
            touched = (
                found[0]
                for found in _SENTENCE.finditer(text)
                if found.start() < hit.end and found.end() > hit.start
            )
            if not _is_traced(" ".join(touched), message, sources):
                finding = hit_finding(hit, Surface.COMPACTION)
                excerpt = normalize_text(message.content[hit.start : hit.end])[:_MAX_EXCERPT]
                source = {"source": f"{message.role} message", "excerpt": excerpt}
                place = {"in": "after", "message": index, "role": message.role}
                evidence = {**finding.evidence, **source, **place}
                yield msgspec.structs.replace(finding, evidence=evidence)


def _compile_texts(texts: Collection[str]) -> re.Pattern[str]:
    """Return a pattern that matches each of the texts, however it is spaced."""
    words = (text.split() for text in sorted(texts, key=len, reverse=True))
    options = (r"\s+".join(map(re.escape, each)) for each in words if each)
    return re.compile("|".join(options) or r"(?!)")


def _blank_match(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _analyze_sentence(text: str, rank: int) -> _OrderSentence:
    words = [word.text for word in split_words(text)]
    telling = frozenset(words) - _COMMON_WORDS - _NEGATIONS
    negations = sum(word in _NEGATIONS for word in words)
    return _OrderSentence(telling or frozenset(words), negations, rank)


def _is_traced(order: str, message: ContextMessage, sources: Sequence[_OrderSentence]) -> bool:
    traced = _analyze_sentence(order, 0)
    if not traced.telling:
        return False
    needed = _RULERS if message.trust >= _RULERS else min(message.trust, TRUST["assistant"])
    # INVARIANT: an order is not traced to a sentence that says the opposite.
    return any(
        source.trust >= needed
        and source.negations == traced.negations
        and len(traced.telling & source.telling) >= _MIN_TRACED_SHARE * len(traced.telling)
        for source in sources
    )


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
            raise InputTypeError.wrong_type("a message", "a `ContextMessage`", message)
    yield from _check_seal(event, config)
    manifest = event.manifest
    pins = manifest.pins if manifest else make_pins(event.before, roles=config.roles)
    yield from find_lost_pins(pins, event.before, event.after)
    yield from find_changed_authors(event.before, event.after)
    yield from find_changed_order(event.before, event.after)
    yield from find_promoted_text(event.before, event.after, config.run)
    rules = config.rules or builtin_rules(SURFACE)
    pinned_texts = [pin.text for pin in pins if pin.text is not None]
    yield from find_new_orders(event.before, event.after, rules, pinned_texts)


def _check_seal(event: Compaction, config: CompactionConfig) -> Iterator[Finding]:
    """Yield what is wrong with the manifest itself. The expected seal is never shown."""
    manifest = event.manifest
    if manifest is None:
        return
    if config.key is None:
        problem = "there is no key to verify the pins with"
    elif not is_sealed_by(manifest, config.key):
        problem = "the seal over the pins does not verify"
    elif manifest.context != event.context:
        problem = "the pins are those of another context"
    else:
        return
    facts = {"expected_digest": manifest.seal[:100], "pins": len(manifest.pins)}
    evidence = {"rule": "SEAL_BROKEN", "segment": "manifest", **facts}
    code = ReasonCode.INTEGRITY_FAILURE
    yield Finding(code=code, surface=SURFACE, detail=problem, evidence=evidence)
