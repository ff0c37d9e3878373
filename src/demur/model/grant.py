"""A grant: signed authority from one person for another, limited by scope and time.

This is the value and its bytes to sign. It is checked where keys and time are known.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal, Self
from unicodedata import is_normalized

import msgspec
from msgspec import UNSET, UnsetType

from demur.canonical import canonical_bytes, digest_of_bytes
from demur.codes.vocabulary import GrantKind
from demur.errors import GrantError

Algorithm = Literal["ed25519", "hmac-sha256"]
MAX_USES = 1000
_DOMAIN = b"demur grant.v1\n"


class Grant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Authority of one kind, given by `granted_by` to `granted_to`, signed with `key_id`.

    `scope` names what it covers, key by key; the value `*` covers any value of that key.
    `codes` narrows it to some of the codes that its kind can lift. `uses` is how many decisions it
    may turn into ALLOW; without it, there is no limit.
    """

    grant_id: str
    kind: GrantKind
    granted_by: str
    granted_to: str
    scope: Mapping[str, str]
    not_before: datetime
    expires_at: datetime
    key_id: str
    algorithm: Algorithm
    codes: tuple[str, ...] = ()
    signature: str = ""
    uses: Annotated[int, msgspec.Meta(ge=1, le=MAX_USES)] | UnsetType = UNSET
    schema_version: Literal["grant.v1"] = "grant.v1"

    def __post_init__(self) -> None:
        for name in ("grant_id", "granted_by", "granted_to", "key_id"):
            _check_name(name, getattr(self, name))
        if not self.scope:
            help_text = 'like `{"action": "refund"}`; `*` covers any value'
            raise GrantError("a grant needs a scope", help=help_text)
        if not all(isinstance(word, str) for pair in self.scope.items() for word in pair):
            raise GrantError("a scope has strings for keys and values")
        if _in_utc("expires_at", self.expires_at) <= _in_utc("not_before", self.not_before):
            raise GrantError("a grant expires after it begins", help="move `expires_at`")
        uses = self.uses
        if uses is not UNSET and (type(uses) is not int or not 1 <= uses <= MAX_USES):
            raise GrantError(f"a grant has 1 to {MAX_USES} uses, not {uses!r}")

    @property
    def max_uses(self) -> int | None:
        """How many decisions it may turn into ALLOW; None if there is no limit."""
        return None if self.uses is UNSET else self.uses

    def signed_bytes(self) -> bytes:
        """Return the bytes that the signature covers: everything but the signature."""
        fields = msgspec.to_builtins(self)
        del fields["signature"]
        fields.pop("digest", None)
        for name in ("not_before", "expires_at"):
            fields[name] = _in_utc(name, getattr(self, name)).isoformat()
        return _DOMAIN + canonical_bytes(fields)

    def compute_digest(self) -> str:
        """Return the digest of the grant and its signature, which identifies it in records."""
        return digest_of_bytes(self.signed_bytes() + b"\n" + self.signature.encode())

    def covers_scope(self, scope: Mapping[str, str]) -> bool:
        """Return whether `scope` matches every key of the grant's scope."""
        # INVARIANT: a grant never covers a scope that lacks one of its keys.
        return all(key in scope and value in {"*", scope[key]} for key, value in self.scope.items())

    def to_json(self) -> bytes:
        """Return the grant as JSON, for a file or a header."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Return the grant written in `text`.

        Raises:
            GrantError: It is not a grant.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, GrantError) as error:
            raise GrantError(f"not a grant: {error}") from error


class RecordedGrant(Grant, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A grant as a record keeps it: `digest` stands in place of the signature, which is empty.

    Records of earlier versions hold the signature and no digest.
    """

    digest: str | UnsetType = UNSET

    @classmethod
    def from_grant(cls, grant: Grant) -> "RecordedGrant":
        """Return what a record keeps of a grant."""
        if isinstance(grant, RecordedGrant) and grant.digest is not UNSET:
            return grant
        fields = {name: getattr(grant, name) for name in Grant.__struct_fields__}
        # INVARIANT: no record holds a signature.
        return cls(**{**fields, "signature": "", "digest": grant.compute_digest()})


def _check_name(field: str, name: object) -> None:
    """Refuse names that could pass for another: outer spaces, invisible or decomposed letters."""
    if not isinstance(name, str) or not name:
        raise GrantError(f"a grant needs `{field}`")
    if name != name.strip() or not name.isprintable() or not is_normalized("NFC", name):
        raise GrantError(f"`{field}` must be plain text without outer spaces, not {name!r}")


def _in_utc(field: str, moment: object) -> datetime:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise GrantError(f"`{field}` needs a time zone", help="like 2027-01-31T12:00:00Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise GrantError(f"`{field}` is out of range") from error
