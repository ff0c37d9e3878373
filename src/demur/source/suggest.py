"""Suggest the name that a mistyped one was meant to be."""

import difflib
from collections.abc import Iterable

__all__ = ["closest_name", "did_you_mean"]


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name nearest to `name`, or None if none is near."""
    # Long text is no typo, and comparing it would be slow.
    if len(name) > 100:
        return None
    by_fold = {candidate.casefold(): candidate for candidate in known}
    folded = name.casefold().strip().replace("-", "_").replace(" ", "_")
    near = difflib.get_close_matches(folded, by_fold, n=1, cutoff=0.75)
    return by_fold[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return `did you mean ...?` for the known name nearest to `name`, or None."""
    near = closest_name(name, known)
    return f"did you mean `{near}`?" if near else None
