"""Hold a compacted context against the one before. Codes: CONTEXT_INJECTION, INTEGRITY_FAILURE.

Five things must hold: the seal over what was pinned verifies; every pinned text is still there,
word for word, in its role and order; kept messages have the author and the order they had;
nothing that a tool or user said is now said by those who rule; and no order to the assistant
appeared that nobody of standing gave. A summary that keeps the rules and tells what happened
passes.

Limits: a paraphrase of a tool's text that reads like no order is not seen, nor is the loss of
what was not pinned. `system` and `developer` are trusted alike. Spans are places in the content
of the message in `after` that the evidence names under `message`.
"""

from collections.abc import Iterator

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.guards.compaction.authorship import find_changed_authors, find_changed_order
from demur.guards.compaction.message import ContextMessage, Role
from demur.guards.compaction.pinning import PinManifest, is_sealed_by, make_pins
from demur.guards.compaction.promotion import find_promoted_text
from demur.guards.compaction.standing_order import find_new_orders
from demur.guards.compaction.survival import find_lost_pins
from demur.guards.text_rules.rule import RuleSet
from demur.guards.text_rules.rules import builtin_rules
from demur.model.finding import Finding

__all__ = ["CODES", "SURFACE", "Compaction", "CompactionConfig", "check"]

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
