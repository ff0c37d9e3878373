"""Names for codes in programming languages, where `acme.com/KYC_EXPIRED` is no identifier."""

import re
from collections.abc import Callable, Iterable, Mapping

__all__ = ["camel_name", "constant_name", "distinct_names"]

_BREAK = re.compile(r"[^A-Z0-9]+")


def constant_name(code: str) -> str:
    """Return the name of a constant: `ACME_COM_KYC_EXPIRED`."""
    name = re.sub(r"[^A-Z0-9_]", "_", code.upper())
    return f"_{name}" if name[0].isdigit() else name


def camel_name(code: str) -> str:
    """Return the name of an exported constant: `AcmeComKycExpired`."""
    name = "".join(word.capitalize() for word in _BREAK.split(code.upper()))
    return f"X{name}" if name[0].isdigit() else name


def distinct_names(
    codes: Iterable[str], spell: Callable[[str], str], reserved: Iterable[str] = ()
) -> Mapping[str, str]:
    """Return a name for each code; a name that is already used gets a number appended."""
    # INVARIANT: no two codes share a name, and no code has a reserved one.
    taken = set(reserved)
    names: dict[str, str] = {}
    for code in codes:
        name, number = spell(code), 2
        while name in taken:
            name, number = f"{spell(code)}_{number}", number + 1
        taken.add(name)
        names[code] = name
    return names
