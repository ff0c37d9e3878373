"""The registry's example rows for tests of guards: what to refuse, and harmless twins."""

from collections.abc import Collection

from demur.codes.default import default_registry
from demur.codes.entry import Entry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface

__all__ = ["allow_rows", "refuse_rows"]


def refuse_rows(
    codes: Collection[str] | str | None = None,
    *,
    surface: Surface | str | None = None,
    registry: Registry | None = None,
) -> list[tuple[str, str]]:
    """Return code and text of each row that a guard of these codes, or this surface, must find.

    Raises:
        UnknownCodeError: A code is not registered.
    """
    return [
        (entry.code, row)
        for entry in _select_entries(codes, surface, registry)
        for row in entry.examples.refuse
    ]


def allow_rows(
    codes: Collection[str] | str | None = None,
    *,
    surface: Surface | str | None = None,
    registry: Registry | None = None,
) -> list[tuple[str, str]]:
    """Return code and text of each row that a guard of these codes, or this surface, must pass.

    Raises:
        UnknownCodeError: A code is not registered.
    """
    return [
        (entry.code, row)
        for entry in _select_entries(codes, surface, registry)
        for row in entry.examples.allow
    ]


def _select_entries(
    codes: Collection[str] | str | None, surface: Surface | str | None, registry: Registry | None
) -> list[Entry]:
    known = default_registry() if registry is None else registry
    named = [codes] if isinstance(codes, str) else codes
    entries = list(known) if named is None else [known[code] for code in named]
    return [entry for entry in entries if surface is None or surface in entry.surfaces]
