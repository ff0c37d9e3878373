"""One byte form for one value: RFC 8785 canonical JSON, and its digest.

`20` and `20.0` have the same bytes; NaN, infinities, integers that a double
cannot hold exactly (from 2**53) and lone surrogates have none and are refused.
"""

import hashlib

import rfc8785

from demur.errors import InputError

__all__ = ["canonical_bytes", "digest"]


def canonical_bytes(value: object) -> bytes:
    """Return the canonical JSON bytes of `value` (dicts with string keys, lists, scalars).

    Raises:
        InputError: The value has no canonical form.
    """
    try:
        # The library refuses unknown types itself, so `object` is safe to hand on.
        return rfc8785.dumps(value)  # type: ignore[arg-type]
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"this value has no canonical JSON form: {error}",
            help="use strings, finite numbers below 2**53, booleans, null, lists and objects",
        ) from error


def digest(value: object) -> str:
    """Return `sha256:` and the hex digest of the canonical bytes of `value`."""
    return f"sha256:{hashlib.sha256(canonical_bytes(value)).hexdigest()}"
