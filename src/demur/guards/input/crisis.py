"""Help for people in danger: lines to call by country, and what a finding says about them.

Nobody who speaks of dying is met with a bare refusal: the finding brings the lines of the
person's country, or, where it is not known, ways to find one anywhere.

Limits: lines change; the list holds well-known national ones and is no medical advice. Each
names the site of who runs it, and whether the number was compared with public sources.
"""

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from demur.guards.text_rules.text import PLAIN_READING, TextHit

__all__ = ["HelpResource", "crisis_evidence", "find_help_resources"]

_SIGNALS = {
    "CRISIS_SELF_HARM_NOW": "self_harm",
    "CRISIS_OTHERS": "harm_to_others",
    "CRISIS_FRIEND": "concern_for_another",
}
_SUICIDE = "suicide"
_UNKNOWN = "unknown"


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
    country = _find_country(locale, known)
    if country is None:
        return (*known.anywhere, *known.countries["US"])
    return (*known.countries[country], *known.anywhere)


def crisis_evidence(hit: TextHit, locale: str | None) -> dict[str, Any]:
    """Return the evidence of a crisis finding: the rule, the signal, and where help is."""
    evidence: dict[str, Any] = {
        "rule": hit.rule.id,
        "signal": _SIGNALS.get(hit.rule.id, _SUICIDE),
        "locale": locale or _UNKNOWN,
        "resources": [_public_fields(resource) for resource in find_help_resources(locale)],
    }
    if hit.via != PLAIN_READING:
        evidence["via"] = hit.via
    return evidence


def _public_fields(resource: HelpResource) -> dict[str, str]:
    """Return the fields of a help line that a person in need has to see."""
    shown = {"name": resource.name, "contact": resource.contact}
    return {**shown, "country": resource.country} if resource.country else shown


def _find_country(locale: str | None, known: _HelpDirectory) -> str | None:
    parts = (locale or "").partition(".")[0].partition("@")[0].replace("_", "-").split("-")
    for part in reversed(parts[1:]):
        if part.upper() in known.countries:
            return part.upper()
    if len(parts) > 1 and len(parts[-1]) == 2:
        return None
    return known.languages.get(parts[0].lower())


@cache
def _load_directory() -> _HelpDirectory:
    source = files("demur.guards") / "data" / "crisis_lines.json"
    return msgspec.json.decode(source.read_bytes(), type=_HelpDirectory)
