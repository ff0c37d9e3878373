"""Keys that sign grants and packs, the trusted keys that check them, and their files.

A key belongs to one holder and may be limited to some kinds of grant and to some tenants, so a
signature proves who granted. HMAC needs the standard library only; Ed25519, where a verifier
cannot sign, needs `demur[ed25519]`.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Self, TypeVar, get_args

import msgspec

from demur.codes.vocabulary import GrantKind
from demur.errors import GrantError, InputError, InputTypeError, MissingExtraError, error_reason
from demur.model.grant import Algorithm

KEY_BYTES = 32


class _HmacScheme:
    """HMAC-SHA-256: the trusted side holds the same secret as the signing side."""

    @staticmethod
    def public_key(secret: bytes) -> bytes:
        return secret

    @staticmethod
    def sign(secret: bytes, message: bytes) -> bytes:
        return hmac.digest(secret, message, hashlib.sha256)

    @staticmethod
    def verify(public: bytes, message: bytes, signature: bytes) -> bool:
        return hmac.compare_digest(hmac.digest(public, message, hashlib.sha256), signature)


class _Ed25519Scheme:
    """Ed25519, where a verifier cannot sign. It needs `cryptography`, which is loaded on use."""

    def __init__(self) -> None:
        try:
            self._module: Any = import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
            self._invalid: Any = import_module("cryptography.exceptions").InvalidSignature
        except ImportError as error:
            raise MissingExtraError(
                "Ed25519 keys need the `cryptography` package",
                help="pip install 'demur[ed25519]', or use an `hmac-sha256` key",
            ) from error

    def public_key(self, secret: bytes) -> bytes:
        private = self._module.Ed25519PrivateKey.from_private_bytes(secret)
        return bytes(private.public_key().public_bytes_raw())

    def sign(self, secret: bytes, message: bytes) -> bytes:
        return bytes(self._module.Ed25519PrivateKey.from_private_bytes(secret).sign(message))

    def verify(self, public: bytes, message: bytes, signature: bytes) -> bool:
        try:
            self._module.Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
        except self._invalid:
            return False
        return True


def _load_scheme(algorithm: Algorithm) -> _HmacScheme | _Ed25519Scheme:
    return _HmacScheme() if algorithm == "hmac-sha256" else _Ed25519Scheme()


class TrustedKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key that checks a holder's signatures. For HMAC, `material` is a secret."""

    key_id: str
    holder: str
    algorithm: Algorithm
    material: str
    kinds: tuple[GrantKind, ...] = ()
    tenants: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_identity(self.key_id, self.holder, self.algorithm)
        _decode_material(self.material)

    def __repr__(self) -> str:
        return f"<TrustedKey {self.key_id} of {self.holder}>"

    def may_grant(self, kind: GrantKind) -> bool:
        """Return whether this key may sign grants of that kind (no kinds: all of them)."""
        return not self.kinds or kind in self.kinds

    def may_grant_in(self, tenant: str) -> bool:
        """Return whether this key may sign grants for that tenant (no tenants: all of them)."""
        return not self.tenants or tenant in self.tenants

    def verify_signature(self, message: bytes, signature: str) -> bool:
        """Return whether `signature` was made over `message` with this key."""
        try:
            raw = decode_base64(signature)
        except (binascii.Error, ValueError):
            return False
        return _load_scheme(self.algorithm).verify(_decode_material(self.material), message, raw)


class SigningKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key that makes signatures. Keep it where only its holder can read it."""

    key_id: str
    holder: str
    algorithm: Algorithm
    secret: str
    kinds: tuple[GrantKind, ...] = ()
    tenants: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_identity(self.key_id, self.holder, self.algorithm)
        _decode_material(self.secret)

    def __repr__(self) -> str:
        return f"<SigningKey {self.key_id} of {self.holder}>"

    @classmethod
    def from_randomness(
        cls,
        randomness: bytes,
        *,
        key_id: str,
        holder: str,
        algorithm: Algorithm = "hmac-sha256",
        kinds: Iterable[GrantKind] = (),
        tenants: Iterable[str] = (),
    ) -> Self:
        """Return a new key out of 32 random bytes.

        Raises:
            GrantError: There are not exactly 32 bytes.
        """
        if not isinstance(randomness, bytes):
            raise InputTypeError.wrong_type("the randomness of a key", "bytes", randomness)
        return cls(
            key_id=key_id,
            holder=holder,
            algorithm=algorithm,
            secret=encode_base64(randomness),
            kinds=tuple(kinds),
            tenants=tuple(tenants),
        )

    def sign(self, message: bytes) -> str:
        """Return the signature over `message`."""
        scheme, secret = _load_scheme(self.algorithm), _decode_material(self.secret)
        return encode_base64(scheme.sign(secret, message))

    def trusted_key(self) -> TrustedKey:
        """Return the key for verifiers."""
        scheme, secret = _load_scheme(self.algorithm), _decode_material(self.secret)
        return TrustedKey(
            key_id=self.key_id,
            holder=self.holder,
            algorithm=self.algorithm,
            material=encode_base64(scheme.public_key(secret)),
            kinds=self.kinds,
            tenants=self.tenants,
        )


class KeyRing(Mapping[str, TrustedKey]):
    """The trusted keys, by id. No other key counts."""

    def __init__(self, keys: Iterable[TrustedKey] = ()) -> None:
        self._keys: dict[str, TrustedKey] = {}
        for key in keys:
            if self._keys.setdefault(key.key_id, key) != key:
                raise GrantError(f"two different keys have the id `{key.key_id}`")

    def __getitem__(self, key_id: str) -> TrustedKey:
        return self._keys[key_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _check_identity(key_id: str, holder: str, algorithm: str) -> None:
    if not key_id or not holder:
        raise GrantError("a key needs an id and a holder")
    if algorithm not in get_args(Algorithm):
        known = ", ".join(get_args(Algorithm))
        raise GrantError(f"unknown algorithm `{algorithm}`", help=f"one of {known}")


def encode_base64(raw: bytes) -> str:
    """Return bytes as base64url."""
    return base64.urlsafe_b64encode(raw).decode("ascii")


def decode_base64(text: str) -> bytes:
    """Return the bytes that `encode_base64` wrote; raise a ValueError for any other spelling."""
    raw = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
    # INVARIANT: a signature and a key have exactly one spelling.
    if encode_base64(raw) != text:
        raise ValueError("base64 with other unused bits")
    return raw


def _decode_material(text: str) -> bytes:
    try:
        raw = decode_base64(text)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != KEY_BYTES:
        raise GrantError(f"a key is {KEY_BYTES} bytes in base64url", help="`demur grant keygen`")
    return raw


_Key = TypeVar("_Key", SigningKey, TrustedKey)


def read_signing_key(path: Path) -> SigningKey:
    """Return the signing key in a file, as `demur grant keygen` wrote it."""
    return _decode_key(path, SigningKey)


def read_key_ring(paths: Iterable[Path]) -> KeyRing:
    """Return the trusted keys in the files, one key per file."""
    return KeyRing(_decode_key(path, TrustedKey) for path in paths)


def load_trusted_keys(path: str | None) -> KeyRing:
    """Return the keys in a file: one that `demur grant keygen` wrote, or a list of them.

    Raises:
        InputError: It cannot be read, or holds no keys.
    """
    if path is None:
        return KeyRing()
    try:
        keys = msgspec.json.decode(Path(path).read_bytes(), type=TrustedKey | list[TrustedKey])
    except OSError as error:
        raise InputError(f"cannot read the keys: {error_reason(error)}", where=path) from error
    except (msgspec.DecodeError, ValueError) as error:
        problem = f"neither a trusted key nor a list of them: {error}"
        raise InputError(problem, where=path) from error
    return KeyRing(keys if isinstance(keys, list) else [keys])


def _decode_key(path: Path, kind: type[_Key]) -> _Key:
    try:
        return msgspec.json.decode(read_grant_file(path), type=kind)
    except msgspec.MsgspecError as error:
        raise GrantError(f"not a {kind.__name__}: {error}", where=str(path)) from error


def read_grant_file(path: Path) -> bytes:
    """Return the content of a file of keys, grants or revocations."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise GrantError(f"cannot read: {error_reason(error)}", where=str(path)) from error
