"""Read single lines exactly as `find_refusals` does, and tell unknown codes as well."""

from typing import NamedTuple, cast

from demur.codes.find import FoundRefusal, find_refusals
from demur.codes.names import is_code
from demur.codes.registry import Registry
from demur.triage.counts import CANONICAL, LEGACY, UNKNOWN

__all__ = ["Reader"]


class _Name(NamedTuple):
    """Stands for the entry of a code, of which only the name is asked."""

    code: str


class Reader:
    """Finds refusals, of unknown codes too. It is asked in place of a registry by the finder."""

    def __init__(self, registry: Registry) -> None:
        self.known = frozenset(str(entry.code) for entry in registry)
        self.code_of_phrase = registry.code_of_phrase
        self._allowing = {entry.code for entry in registry if entry.refusal_class is None}

    @staticmethod
    def get(code: str) -> _Name:
        """Return the name of any code: what is unknown is told apart later."""
        return _Name(code)

    def find(self, text: str) -> list[FoundRefusal]:
        """Return the refusals in a text, at most one a line."""
        # The finder asks for `get` and `code_of_phrase`, and so there is one grammar of lines.
        return find_refusals(text, registry=cast("Registry", self))

    def kind(self, found: FoundRefusal) -> str:
        """Return whether a refusal is canonical, legacy, or of an unknown code."""
        if found.legacy:
            return LEGACY
        return CANONICAL if found.code in self.known else UNKNOWN

    def kind_of_code(self, code: str) -> str | None:
        """Return the kind of a code that was read; None if it is none."""
        if code in self.known:
            return CANONICAL
        return UNKNOWN if is_code(code) else None

    def refuses(self, code: str) -> bool:
        """Return whether a reason speaks against an action; an unknown one may."""
        return code not in self._allowing
