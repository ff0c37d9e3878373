"""A deterministic zip file: members stored uncompressed, in order, without times.

It is written and read here and not by a library, because both ends must be exact: the same
members give the same file under any version of Python, and a file that differs in one byte is
refused. Without compression there are no zip bombs.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from demur.errors import DemurError

__all__ = ["CONTAINER", "MAX_PACK_BYTES", "PackError", "check_container", "read_zip", "write_zip"]

MAX_PACK_BYTES = 256 * 1024 * 1024
CONTAINER = "the zip container"

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_LOCAL_MARK, _CENTRAL_MARK, _END_MARK = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_VERSION = 20
_UNIX = 3 << 8
# The first date that a zip file can hold.
_DATE = (0 << 9) | (1 << 5) | 1
_READABLE = 0o100644 << 16


class PackError(DemurError, ValueError):
    """A pack that cannot be trusted; `where` is the member at fault."""


class _ZipMember(NamedTuple):
    name: str
    content: bytes
    end: int


def write_zip(members: Mapping[str, bytes]) -> bytes:
    """Return the file that holds the members; their names are ASCII.

    Raises:
        PackError: It would be too large.
    """
    if sum(map(len, members.values())) >= MAX_PACK_BYTES:
        raise PackError(f"a pack holds less than {MAX_PACK_BYTES} bytes", where=CONTAINER)
    body, index = b"", b""
    for name in sorted(members):
        content = members[name]
        size = len(content)
        facts = (0, 0, 0, _DATE, zlib.crc32(content), size, size, len(name), 0)
        at, label = len(body), name.encode("ascii")
        body += _LOCAL.pack(_LOCAL_MARK, _VERSION, *facts) + label + content
        made_by = (_CENTRAL_MARK, _UNIX | _VERSION, _VERSION)
        index += _CENTRAL.pack(*made_by, *facts, 0, 0, 0, _READABLE, at) + label
    count = len(members)
    return body + index + _END.pack(_END_MARK, 0, 0, count, count, len(index), len(body), 0)


def read_zip(raw: bytes) -> dict[str, bytes]:
    """Return the members of a file, each checked against its checksum.

    `check_container` checks the bytes around the members afterwards, so that an error names a
    changed member rather than the file.

    Raises:
        PackError: It is no pack.
    """
    if len(raw) > MAX_PACK_BYTES:
        raise PackError(f"a pack has at most {MAX_PACK_BYTES} bytes", where=CONTAINER)
    members: dict[str, bytes] = {}
    for entry in _zip_members(raw):
        if entry.name in members:
            raise PackError("the member appears twice", where=entry.name)
        members[entry.name] = entry.content
    if not members:
        raise PackError("not a pack: this is no zip file", where=CONTAINER)
    return members


def check_container(raw: bytes, members: Mapping[str, bytes]) -> None:
    """Check that a file is exactly what its members give.

    Raises:
        PackError: A byte around the members was changed.
    """
    if write_zip(members) != raw:
        raise PackError("the file was changed around its members", where=CONTAINER)


def _zip_members(raw: bytes) -> Iterator[_ZipMember]:
    at = 0
    while raw.startswith(_LOCAL_MARK, at):
        entry = _zip_member(raw, at)
        yield entry
        at = entry.end


def _zip_member(raw: bytes, at: int) -> _ZipMember:
    start = at + _LOCAL.size
    if start > len(raw):
        raise PackError("the file is cut short", where=CONTAINER)
    _, _, flags, method, _, _, checksum, packed, size, label, extra = _LOCAL.unpack_from(raw, at)
    name = raw[start : start + label].decode("ascii", "backslashreplace")
    first = start + label + extra
    if flags or method or packed != size:
        raise PackError("the member is compressed, encrypted or streamed", where=name)
    if first + size > len(raw):
        raise PackError("the member is cut short", where=name)
    content = raw[first : first + size]
    if zlib.crc32(content) != checksum:
        raise PackError("the member was changed: its checksum differs", where=name)
    return _ZipMember(name, content, first + size)
