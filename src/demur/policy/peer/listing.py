"""The peer's list of reason codes: what each of them means, in the organisation's own words."""

import json
from collections.abc import Mapping

from demur.errors import RegistryError

__all__ = ["read_code_list"]


def read_code_list(name: str, text: str) -> Mapping[str, str]:
    """Return the description of each code in Lumyn's JSON file `name`.

    Raises:
        RegistryError: It is not a list of codes.
    """
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{name}:{error.lineno}:{error.colno}"
        raise RegistryError(f"not JSON: {error.msg.lower()}", where=place) from error
    except (RecursionError, ValueError) as error:
        raise RegistryError("not a list of codes", where=name) from error
    rows = raw.get("codes") if isinstance(raw, dict) else None
    if not isinstance(rows, list):
        problem = "Lumyn's codes are an object with a list called `codes`"
        raise RegistryError(problem, where=name)
    return dict(_read_listing_row(name, number, row) for number, row in enumerate(rows))


def _read_listing_row(name: str, number: int, row: object) -> tuple[str, str]:
    code = row.get("code") if isinstance(row, dict) else None
    words = row.get("description", "") if isinstance(row, dict) else None
    if not isinstance(code, str) or not isinstance(words, str):
        raise RegistryError("a code has a name and a description", where=f"{name}: codes[{number}]")
    return code, words.strip()
