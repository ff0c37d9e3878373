"""Sparse vectors of small integers, and their cosine as an exact number.

Integers add up to the same sum in any order, on any machine and in any library. So a score
that decides can be stored, replayed and compared digit by digit.
"""

import math
import struct
from collections.abc import Iterator, Mapping
from typing import Self

import msgspec

from demur.errors import InputError

__all__ = ["MAX_NORM", "MAX_SIZE", "Vector", "cosine_score"]

# By Cauchy-Schwarz no partial sum of a dot product exceeds this, whatever its order, and up
# to 2**24 a 32-bit float holds every whole number: matrix products in float32 are exact.
MAX_NORM = 2**24
MAX_SIZE = 2**16 - 1

_VERSION = 1
_HEAD = struct.Struct("<BH")
_DIGITS = 10**6


class Vector(msgspec.Struct, frozen=True, kw_only=True):
    """Integers at some places, zero elsewhere. Build one with `from_values` or `from_bytes`.

    `raw` is the stored form; `norm` is the exact sum of squares.
    """

    raw: bytes
    norm: int

    @classmethod
    def from_values(cls, values: Mapping[int, int]) -> Self:
        """Return the vector with these values at these places.

        Raises:
            InputError: A place or the norm is too large.
        """
        places = sorted(place for place, value in values.items() if value)
        numbers = [values[place] for place in places]
        if places and not 0 <= places[0] <= places[-1] < MAX_SIZE:
            raise InputError(f"a vector has places from 0 to {MAX_SIZE - 1}")
        norm = sum(number * number for number in numbers)
        if norm > MAX_NORM:
            raise InputError(
                f"the squares of a vector sum to {norm}, more than {MAX_NORM}",
                help="scale the values down",
            )
        count = len(places)
        raw = struct.pack(f"<BH{count}H{count}h", _VERSION, count, *places, *numbers)
        return cls(raw=raw, norm=norm)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """Return the vector that `to_bytes` wrote.

        Raises:
            InputError: The bytes are damaged or of another version.
        """
        try:
            version, count = _HEAD.unpack_from(raw)
            body = struct.unpack_from(f"<{count}H{count}h", raw, _HEAD.size)
        except struct.error:
            raise InputError("a stored vector is cut short") from None
        vector = cls.from_values(dict(zip(body[:count], body[count:], strict=True)))
        # Each vector has one form: ascending places, no zeros, no extra bytes.
        if version != _VERSION or vector.raw != raw:
            raise InputError(
                "a stored vector is damaged or of another version",
                help="project the request again",
            )
        return vector

    def to_bytes(self) -> bytes:
        """Return the form to store; equal vectors have equal bytes."""
        return self.raw

    @property
    def size(self) -> int:
        """One more than the last place that is not zero."""
        last = self.place_bytes[-2:]
        return int.from_bytes(last, "little") + 1 if last else 0

    @property
    def place_bytes(self) -> bytes:
        """The places that are not zero, ascending: unsigned, 2 bytes each, little-endian."""
        return self.raw[_HEAD.size : (len(self.raw) + _HEAD.size) // 2]

    @property
    def value_bytes(self) -> bytes:
        """The values at those places: signed, 2 bytes each, little-endian."""
        return self.raw[(len(self.raw) + _HEAD.size) // 2 :]

    def items(self) -> Iterator[tuple[int, int]]:
        """Return the (place, value) pairs that are not zero, by place."""
        count = (len(self.raw) - _HEAD.size) // 4
        body = struct.unpack_from(f"<{count}H{count}h", self.raw, _HEAD.size)
        return zip(body[:count], body[count:], strict=True)

    def dot(self, other: Self) -> int:
        """Return the dot product, exactly."""
        values = dict(other.items())
        return sum(value * values.get(place, 0) for place, value in self.items())


def cosine_score(dot: int, one: int, other: int) -> float:
    """Return the cosine for a dot product and two norms, in [0, 1] with 6 decimals.

    It is computed in integers only; a negative or zero dot product scores 0.
    """
    if dot <= 0:
        return 0.0
    quadruple = 4 * dot * dot * _DIGITS**2 // (one * other)
    return (math.isqrt(quadruple) + 1) // 2 / _DIGITS
