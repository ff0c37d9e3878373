"""Read single lines exactly as `find_refusals` does, and tell unknown codes as well."""

from typing import NamedTuple, cast

from demur.codes.find import FoundRefusal, find_refusals
from demur.codes.names import is_code
from demur.codes.registry import Registry
from demur.triage.counts import CANONICAL, LEGACY, UNKNOWN

__all__ = ["LineReader"]


class _CodeName(NamedTuple):
    """Stands in for a registry entry; the finder reads only its code."""

    code: str


class LineReader:
    """Finds refusals, of unknown codes too; the finder uses it in place of a registry."""

    def __init__(self, registry: Registry) -> None:
        self.known = frozenset(str(entry.code) for entry in registry)
        self.code_of_phrase = registry.code_of_phrase
        self._allowing = {entry.code for entry in registry if entry.refusal_class is None}

    @staticmethod
    def get(code: str) -> _CodeName:
        """Return an entry for any code; unknown codes are recognised later."""
        return _CodeName(code)

    def find_refusals_in(self, text: str) -> list[FoundRefusal]:
        """Return the refusals in a text, at most one per line."""
        # The finder needs only `get` and `code_of_phrase`; so there is one grammar of lines.
        return find_refusals(text, registry=cast("Registry", self))

    def found_kind(self, found: FoundRefusal) -> str:
        """Return whether a refusal is canonical, legacy, or of an unknown code."""
        if found.legacy:
            return LEGACY
        return CANONICAL if found.code in self.known else UNKNOWN

    def code_kind(self, code: str) -> str | None:
        """Return the kind of a code, or None if it is not well-formed."""
        if code in self.known:
            return CANONICAL
        return UNKNOWN if is_code(code) else None

    def is_refusing(self, code: str) -> bool:
        """Return whether a code refuses; unknown codes count as refusing."""
        return code not in self._allowing
