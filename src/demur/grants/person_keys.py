"""Keys of people that a service stores for them, and the service key that seals and certifies them.

The service key is a file that only the service reads, and is never in the store. Out of it follow
two keys: one encrypts the secrets of people's keys, the other certifies their public halves. A
gate needs only the public half of the second, as an `issuer`.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from demur.canonical import canonical_bytes
from demur.errors import GrantError, MissingExtraError, error_reason
from demur.grants.keys import (
    KEY_BYTES,
    SigningKey,
    TrustedKey,
    decode_base64,
    encode_base64,
    read_grant_file,
)

PERSON_PREFIX = "person:"
_CERTIFICATE_DOMAIN = b"demur person key.v1\n"
_SEAL_INFO, _ISSUER_INFO = b"demur people seal.v1", b"demur people issuer.v1"
_NONCE_BYTES = 12
_EXPOSED = stat.S_IRWXG | stat.S_IRWXO
_INIT_HELP = "`demur people init` makes one"


class _KeyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a file with a service key."""

    secret: str
    schema_version: Literal["service_key.v1"] = "service_key.v1"


class ServiceKey:
    """The key of a service that keeps the keys of people. It needs `cryptography`."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise GrantError(f"a service key is {KEY_BYTES} bytes", help=_INIT_HELP)
        self._secret = secret
        issuer_secret = self._derive(_ISSUER_INFO)
        name = hashlib.sha256(b"issuer name\n" + issuer_secret).hexdigest()[:12]
        self.issuer = SigningKey.from_randomness(
            issuer_secret, key_id=f"issuer:{name}", holder="demur service", algorithm="ed25519"
        )
        self._cipher = _load("cryptography.hazmat.primitives.ciphers.aead").AESGCM(
            self._derive(_SEAL_INFO)
        )

    def __repr__(self) -> str:
        return f"<ServiceKey {self.issuer.key_id}>"

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """Return the key in a file.

        Raises:
            GrantError: It is missing, other users can read it, or it holds no service key.
        """
        place = Path(path)
        try:
            mode = place.stat().st_mode
        except FileNotFoundError:
            raise GrantError("there is no service key", where=str(path), help=_INIT_HELP) from None
        except OSError as error:
            raise GrantError(f"cannot read: {error_reason(error)}", where=str(path)) from error
        if os.name == "posix" and mode & _EXPOSED:
            problem = f"other users may use the service key: its mode is {stat.S_IMODE(mode):04o}"
            raise GrantError(problem, where=str(path), help=f"chmod 600 {path}")
        try:
            content = msgspec.json.decode(read_grant_file(place), type=_KeyFile)
            return cls(decode_base64(content.secret))
        except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
            if isinstance(error, GrantError):
                raise
            raise GrantError("not a service key", where=str(path), help=_INIT_HELP) from error

    def to_json(self) -> bytes:
        """Return the content of the key's file."""
        return msgspec.json.encode(_KeyFile(secret=encode_base64(self._secret)))

    def seal(self, key: SigningKey, nonce: bytes) -> str:
        """Return the secret of a person's key, encrypted; the nonce is 12 random bytes."""
        plain = decode_base64(key.secret)
        sealed = self._cipher.encrypt(nonce, plain, _certified_bytes(key.trusted_key()))
        return encode_base64(nonce + sealed)

    def unseal(self, key: TrustedKey, sealed: str) -> SigningKey:
        """Return a person's key with its secret, which `seal` encrypted.

        Raises:
            GrantError: It was sealed by another service key, for another key, or changed.
        """
        invalid = _load("cryptography.exceptions").InvalidTag
        try:
            raw = decode_base64(sealed)
            nonce, rest = raw[:_NONCE_BYTES], raw[_NONCE_BYTES:]
            # INVARIANT: a sealed secret opens only as the key of the person it was made for.
            secret = self._cipher.decrypt(nonce, rest, _certified_bytes(key))
        except (invalid, ValueError):
            problem = f"the secret of the key `{key.key_id}` cannot be decrypted"
            raise GrantError(problem, help="was it sealed by another service key?") from None
        return SigningKey.from_randomness(
            secret,
            key_id=key.key_id,
            holder=key.holder,
            algorithm=key.algorithm,
            kinds=key.kinds,
            tenants=key.tenants,
        )

    def certify(self, key: TrustedKey) -> str:
        """Return the certificate of a person's key."""
        return self.issuer.sign(_certified_bytes(key))

    def _derive(self, info: bytes) -> bytes:
        hashes = _load("cryptography.hazmat.primitives.hashes")
        hkdf = _load("cryptography.hazmat.primitives.kdf.hkdf").HKDF
        kdf = hkdf(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=info)
        return bytes(kdf.derive(self._secret))


def is_certified(
    key: TrustedKey, issuer: str, certificate: str, issuers: Mapping[str, TrustedKey]
) -> bool:
    """Return whether one of the trusted issuers certified a person's key."""
    trusted = issuers.get(issuer)
    return trusted is not None and trusted.verify_signature(_certified_bytes(key), certificate)


def _certified_bytes(key: TrustedKey) -> bytes:
    """Return what a certificate covers: the whole public half, with its person and tenants."""
    return _CERTIFICATE_DOMAIN + canonical_bytes(msgspec.to_builtins(key))


def _load(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        problem = "keys of people need the `cryptography` package"
        raise MissingExtraError(problem, help="pip install 'demur[people]'") from error
