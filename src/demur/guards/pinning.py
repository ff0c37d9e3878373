"""Pin the messages of a context, and check later that they survived, word for word.

The seal is an HMAC-SHA256 over the canonical JSON of the list. It holds role, order and digest
of each pinned message, not its text; rules that are no message of their own are kept as text.
The process that compacts the context must not hold the key.

Two texts are the same, word for word, if they differ in nothing but white space and Unicode
composition (NFC). Case, punctuation and invisible characters count. A pinned message may stand
by itself or within a longer message of the same trust, where it must begin and end like a text
of its own: a sentence that goes on after it could take it back.
"""

import hmac
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal, NamedTuple, Self, get_args
from unicodedata import is_normalized, normalize

import msgspec

from demur.canonical import canonical_bytes, digest
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.model.finding import Finding, Span
from demur.text.fold import fold_text

Role = Literal["assistant", "developer", "system", "tool", "user"]

MAX_MESSAGE_LENGTH = 20_000_000
TRUST = {"tool": 0, "assistant": 1, "user": 2, "developer": 3, "system": 3}
_OTHER_NAMES = {"ai": "assistant", "function": "tool", "human": "user", "model": "assistant"}
# Scripts that write no spaces: each character stands for a word.
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0eff"
# Invisible characters do not split a word.
_HIDDEN = "\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
_LETTERS = rf"[^\W{_UNSPACED}]+"
_WORD = re.compile(rf"[{_UNSPACED}]|{_LETTERS}(?:[{_HIDDEN}]+{_LETTERS})*")


class ContextMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message: its role and its text."""

    role: Role
    content: str

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            known = ", ".join(get_args(Role))
            raise InputError(f"unknown role `{str(self.role)[:40]}`", help=f"one of {known}")
        if not isinstance(self.content, str):
            raise InputTypeError.wrong_type("content", "a text", self.content)
        if len(self.content) > MAX_MESSAGE_LENGTH:
            raise InputError(f"a message has more than {MAX_MESSAGE_LENGTH} characters")

    @property
    def trust(self) -> int:
        """How much the role is trusted: tool, assistant, user, then system and developer."""
        return TRUST[self.role]

    @property
    def key(self) -> tuple[str, str]:
        """The role and the normalized text: equal keys are the same message."""
        return self.role, normalize_text(self.content)


class MessageWord(NamedTuple):
    """A word in its folded form, and where it stands."""

    text: str
    start: int
    end: int


def normalize_text(text: str) -> str:
    """Return `text` in NFC with single spaces; equal results are the same word for word."""
    return " ".join(normalize("NFC", text).split())


def split_words(text: str) -> list[MessageWord]:
    """Return the words of `text`, folded for comparison."""
    return [MessageWord(_fold_word(found[0]), *found.span()) for found in _WORD.finditer(text)]


@lru_cache(4096)
def _fold_word(word: str) -> str:
    """Return a word without look-alike letters, case and invisible characters."""
    return word.casefold() if word.isascii() else fold_text(word).data.decode("latin-1")


def read_messages(rows: Iterable[Mapping[str, Any]]) -> tuple[ContextMessage, ...]:
    """Return messages in the shapes that providers use: a text, or a list of parts with texts.

    Raises:
        InputError: A row has no known role, or no text.
    """
    return tuple(_read_message(index, row) for index, row in enumerate(rows))


def _read_message(index: int, row: Any) -> ContextMessage:
    if not isinstance(row, Mapping):
        raise InputTypeError.wrong_type(f"message {index}", "an object", row)
    role = row.get("role", row.get("type"))
    content = row.get("content")
    try:
        return ContextMessage(role=_OTHER_NAMES.get(role, role), content=_join_text(content))  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(error.problem, where=f"message {index}", help=error.help) from None
    except TypeError:
        where = f"the content of message {index}"
        raise InputTypeError.wrong_type(where, "a text", content) from None


def _join_text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        raise TypeError
    return "\n".join(
        part if isinstance(part, str) else str(part.get("text") or part.get("content") or "")
        for part in content
        if isinstance(part, str | Mapping)
    )


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
        help_text = f"no message has one of the roles {', '.join(roles)}"
        raise InputError("there is nothing to pin", help=help_text)
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
    seal = manifest.seal.encode("utf-8", "replace")
    return hmac.compare_digest(_compute_seal(manifest, key).encode(), seal)


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


_TOKEN = re.compile(r"\S+")
_ENDS = tuple(".!?;:)]}>\"'…\u3002\uff01\uff1f")
_BEGINS = (*_ENDS, "*", "-", "#", "•", ",")
# The share of a text's words that another must hold to count as a changed copy.
_MIN_SIMILARITY = 0.6


class _PinPlace(NamedTuple):
    message: int
    start: int


def find_lost_pins(
    pins: Sequence[Pin], before: Sequence[ContextMessage], after: Sequence[ContextMessage]
) -> Iterator[Finding]:
    """Yield a finding for each pin that is gone, changed, demoted or out of order."""
    roles = {pin.role for pin in pins if pin.text is None}
    origin = {(m.role, content_digest(m.content)): m.content for m in before if m.role in roles}
    last = _PinPlace(-1, -1)
    for pin in pins:
        text = pin.text if pin.text is not None else origin.get((pin.role, pin.digest))
        if text is None:
            yield _finding(pin, "is not in the context that was to be compacted", {"in": "before"})
            continue
        places = [
            _PinPlace(index, start)
            for index, message in enumerate(after)
            if message.trust >= TRUST[pin.role]
            for start in _find_starts(normalize_text(text), message.content)
        ]
        if not places:
            yield _lost_finding(pin, normalize_text(text), after)
            continue
        # Pinned rules may stand anywhere; pinned messages keep their order.
        if pin.text is None:
            following = [place for place in places if place > last]
            if not following:
                where = {"in": "after", "message": places[0].message}
                yield _finding(pin, "is out of order", where)
            last = following[0] if following else last


def _find_starts(text: str, content: str) -> Iterator[int]:
    """Yield where `text` stands in `content` as a text of its own."""
    whole = normalize_text(content)
    start = whole.find(text) if text else -1
    gaps = _line_gaps(content) if start >= 0 and len(whole) > len(text) else frozenset()
    while start >= 0:
        end = start + len(text)
        begins = start == 0 or start - 1 in gaps or whole[:start].rstrip().endswith(_BEGINS)
        ends = end == len(whole) or end in gaps or text.endswith(_ENDS)
        if begins and ends and (end == len(whole) or whole[end] == " "):
            yield start
        start = whole.find(text, start + 1)


def _line_gaps(content: str) -> frozenset[int]:
    """Return which spaces of the flat text were line breaks."""
    gaps, place, end = set(), 0, 0
    composed = normalize("NFC", content)
    for found in _TOKEN.finditer(composed):
        if place:
            if "\n" in composed[end : found.start()]:
                gaps.add(place)
            place += 1
        place += len(found[0])
        end = found.end()
    return frozenset(gaps)


def _lost_finding(pin: Pin, text: str, after: Sequence[ContextMessage]) -> Finding:
    """Return the finding for a lost pin: demoted, changed or gone."""
    for index, message in enumerate(after):
        if any(True for _ in _find_starts(text, message.content)):
            facts = {"in": "after", "message": index, "found_role": message.role}
            return _finding(pin, "has lost its role", facts)
    words = set(text.casefold().split())
    for index, message in enumerate(after):
        shared = words.intersection(normalize_text(message.content).casefold().split())
        if message.trust >= TRUST[pin.role] and len(shared) >= _MIN_SIMILARITY * max(len(words), 1):
            actual = content_digest(message.content)
            facts = {"in": "after", "message": index, "actual_digest": actual}
            span = Span(start=_first_difference(text, message.content), end=len(message.content))
            return _finding(pin, "was changed", facts, span)
    return _finding(pin, "is gone", {"in": "after"})


def _first_difference(text: str, content: str) -> int:
    """Return the place where `content` first differs from `text`."""
    if not is_normalized("NFC", content):
        return 0
    end = 0
    for token, found in zip(text.split(), _TOKEN.finditer(content), strict=False):
        if token != found[0]:
            return found.start()
        end = found.end()
    return end


def _finding(pin: Pin, problem: str, facts: dict[str, Any], span: Span | None = None) -> Finding:
    kind = "rule" if pin.text is not None else f"{pin.role} message"
    named = {"rule": "PIN_LOST", "segment": f"pin {pin.order}", "role": pin.role}
    return Finding(
        code=ReasonCode.INTEGRITY_FAILURE,
        surface=Surface.COMPACTION,
        span=span,
        detail=f"a pinned {kind} {problem}",
        evidence={**named, "expected_digest": pin.digest, **facts},
    )
