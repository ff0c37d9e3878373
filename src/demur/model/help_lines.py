"""Help lines for a person in danger, by locale.

The list holds well-known national lines and directories that serve every country. Lines change:
`source` is the operator's site, and the list is no medical advice.
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

import msgspec

# Stands in evidence where the locale of a person was not known.
UNKNOWN_LOCALE = "unknown"


class HelpResource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place that helps: its name, how to reach it, and the country it serves, if only one.

    `source` is the operator's site: check it before relying on the contact.
    """

    name: str
    contact: str
    source: str
    country: str | None = None


class _HelpDirectory(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: str
    anywhere: tuple[HelpResource, ...]
    countries: dict[str, tuple[HelpResource, ...]]
    # Languages that are mainly spoken in one country.
    languages: dict[str, str]


def find_help_resources(locale: str | None) -> tuple[HelpResource, ...]:
    """Return the help lines for a locale such as `en-US`, `de` or `pt_BR.UTF-8`.

    Without a known country these are the directories that serve every country, and the line
    of the United States, which is marked as such.
    """
    known = _load_directory()
    national = find_national_lines(locale)
    return (*national, *known.anywhere) if national else (*known.anywhere, *known.countries["US"])


def find_national_lines(locale: str | None) -> tuple[HelpResource, ...]:
    """Return the help lines of the country that a locale names or implies; none if unknown."""
    known = _load_directory()
    country = next(_iter_countries(locale, known), None)
    return () if country is None else known.countries[country]


def _iter_countries(locale: str | None, known: _HelpDirectory) -> Iterator[str]:
    """Yield the country of a locale: the one it names, or that of its language."""
    parts = (locale or "").partition(".")[0].partition("@")[0].replace("_", "-").split("-")
    yield from (part.upper() for part in reversed(parts[1:]) if part.upper() in known.countries)
    named = len(parts) > 1 and len(parts[-1]) == 2
    if not named and parts[0].lower() in known.languages:
        yield known.languages[parts[0].lower()]


@cache
def _load_directory() -> _HelpDirectory:
    source = files("demur.model") / "crisis_lines.json"
    return msgspec.json.decode(source.read_bytes(), type=_HelpDirectory)
