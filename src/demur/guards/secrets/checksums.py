"""Check digits: what tells a real number or token from one that only looks alike."""

import zlib

__all__ = ["base62_crc32", "ends_in_crc32", "luhn_holds", "mod97_holds"]

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHECK_SIZE = 6


def base62_crc32(text: str) -> str:
    """Return the CRC-32 of ASCII `text` as six base 62 digits, as token issuers append it."""
    number = zlib.crc32(text.encode("ascii"))
    digits = ""
    while number:
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits.rjust(_CHECK_SIZE, "0")


def ends_in_crc32(token: str) -> bool:
    """Return whether what follows the prefix of `token` (up to its last `_`) checks out."""
    body = token.rpartition("_")[2]
    return base62_crc32(body[:-_CHECK_SIZE]) == body[-_CHECK_SIZE:]


def luhn_holds(digits: str) -> bool:
    """Return whether the last of `digits` is the Luhn check digit of the others."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) << (place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def mod97_holds(account: str) -> bool:
    """Return whether an account number of capitals and digits satisfies ISO 7064 mod 97-10."""
    turned = account[4:] + account[:4]
    return int("".join(str(int(character, 36)) for character in turned)) % 97 == 1
