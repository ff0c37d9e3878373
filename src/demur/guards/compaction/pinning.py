"""Pin the rules of a context: a sealed list of what must still be there later.

The seal is an HMAC-SHA256 over the canonical JSON of the list. It holds role, order and digest
of each pinned message, not its text; rules that are no message of their own are kept as text.
Whoever compacts the context must not hold the key.
"""

import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import Literal, Self

import msgspec

from demur.canonical import canonical_bytes, digest
from demur.errors import InputError, InputTypeError
from demur.guards.compaction.message import ContextMessage, Role, normalize_text

__all__ = [
    "MIN_KEY_LENGTH",
    "Pin",
    "PinManifest",
    "content_digest",
    "is_sealed_by",
    "pin_messages",
    "make_pins",
]

MIN_KEY_LENGTH = 16
_DOMAIN = b"demur pin_manifest.v1\n"


class Pin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pinned text: who says it, its place among the pins, its digest; a rule has its text."""

    role: Role
    order: int
    digest: str
    text: str | None = None


class PinManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pins of one context, and the seal over them."""

    pins: tuple[Pin, ...]
    context: str
    seal: str
    schema_version: Literal["pin_manifest.v1"] = "pin_manifest.v1"

    def to_json(self) -> bytes:
        """Return the manifest as JSON, to be kept beside the context."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Return the manifest written in `text`; whether its seal holds is judged later.

        Raises:
            InputError: It is no manifest.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(f"not a pin manifest: {reason}") from error


def pin_messages(
    messages: Sequence[ContextMessage],
    key: bytes,
    *,
    roles: Sequence[Role] = ("system", "developer"),
    rules: Sequence[str] = (),
    context: str = "",
) -> PinManifest:
    """Return the sealed list of all messages of `roles`, and of `rules` that must be in them.

    `context` names the conversation, so that a manifest of another does not fit.

    Raises:
        InputError: The key is short, or nothing is there to pin.
    """
    _check_key(key)
    pins = make_pins(messages, roles=roles, rules=rules)
    if not pins:
        raise InputError(
            "there is nothing to pin", help=f"no message has one of the roles {', '.join(roles)}"
        )
    bare = PinManifest(pins=pins, context=context, seal="")
    return msgspec.structs.replace(bare, seal=_compute_seal(bare, key))


def make_pins(
    messages: Sequence[ContextMessage], *, roles: Sequence[str], rules: Sequence[str] = ()
) -> tuple[Pin, ...]:
    """Return the pins of all messages of `roles`, in their order, and then of `rules`."""
    chosen = [message for message in messages if message.role in roles]
    pins = [
        Pin(role=message.role, order=order, digest=content_digest(message.content))
        for order, message in enumerate(chosen)
    ]
    for rule in rules:
        text = normalize_text(rule)
        if not text:
            raise InputError("a rule is not empty")
        pins.append(Pin(role="system", order=len(pins), digest=digest(text), text=text))
    return tuple(pins)


def is_sealed_by(manifest: PinManifest, key: bytes) -> bool:
    """Return whether the seal was made with `key` over just this list."""
    _check_key(key)
    # INVARIANT: a manifest that was changed after sealing is not sealed.
    # Compared as bytes: a seal that was tampered with need not be ASCII.
    return hmac.compare_digest(
        _compute_seal(manifest, key).encode(), manifest.seal.encode("utf-8", "replace")
    )


def content_digest(text: str) -> str:
    """Return the digest of a text's words, however they are spaced."""
    return digest(normalize_text(text))


def _compute_seal(manifest: PinManifest, key: bytes) -> str:
    fields = msgspec.to_builtins(manifest)
    del fields["seal"]
    return hmac.new(key, _DOMAIN + canonical_bytes(fields), sha256).hexdigest()


def _check_key(key: bytes) -> None:
    if not isinstance(key, bytes):
        raise InputTypeError.wrong_type("key", "bytes", key)
    if len(key) < MIN_KEY_LENGTH:
        raise InputError(f"a key has at least {MIN_KEY_LENGTH} bytes", help="take 32 random ones")
