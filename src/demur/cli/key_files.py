"""Read and write the files of keys, grants and revocation lists."""

import json
import os
from pathlib import Path
from typing import TypeVar

import msgspec

from demur.classification.keys import KeyRing, SigningKey, TrustedKey
from demur.errors import GrantError

__all__ = [
    "read_file",
    "read_revocations",
    "read_key_ring",
    "read_signing_key",
    "write_key_file",
    "write_secret_file",
]

_Key = TypeVar("_Key", SigningKey, TrustedKey)


def read_signing_key(path: Path) -> SigningKey:
    """Return the signing key in the file."""
    return _decode_key(path, SigningKey)


def read_key_ring(paths: list[Path]) -> KeyRing:
    """Return the trusted keys in the files, one key per file."""
    return KeyRing(_decode_key(path, TrustedKey) for path in paths)


def _decode_key(path: Path, kind: type[_Key]) -> _Key:
    try:
        return msgspec.json.decode(read_file(path), type=kind)
    except msgspec.MsgspecError as error:
        raise GrantError(f"not a {kind.__name__}: {error}", where=str(path)) from error


def read_file(path: Path) -> bytes:
    """Return the content of the file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise GrantError(f"cannot read: {str(error.strerror).lower()}", where=str(path)) from error


def read_revocations(path: Path | None) -> frozenset[str]:
    """Return the revoked grant ids: a JSON list of strings. A named file must exist."""
    if path is None:
        return frozenset()
    text = read_file(path)
    try:
        ids = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GrantError("not a JSON list of grant ids", where=str(path)) from error
    if not isinstance(ids, list) or not all(isinstance(item, str) for item in ids):
        raise GrantError("not a JSON list of grant ids", where=str(path))
    return frozenset(ids)


def write_secret_file(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read; never replace an existing one."""
    write_key_file(path, content, mode=0o600)


def write_key_file(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a new file; never replace an existing one."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        raise GrantError(f"cannot write: {str(error.strerror).lower()}", where=str(path)) from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(content + b"\n")
