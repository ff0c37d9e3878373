"""Credentials in the arguments of a tool call, and where they would go.

A key in an argument is a leak. With a public host in the same call that nobody declared
trusted, it is on its way out. A key for a trusted host is how that host is used, and only goes
on record. Found are the formats and names that the output guard knows; a host is a URL's, or
that of an e-mail address.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import re2

from demur.codes.reason_code import ReasonCode
from demur.guards.secrets.ascii_view import make_ascii_view, search_view
from demur.guards.secrets.assigned import ASSIGNED_SECRETS
from demur.guards.secrets.private_keys import PRIVATE_KEYS
from demur.guards.secrets.secret_text import FORMATTED_SECRETS
from demur.guards.text_rules.seeking import TextMatch
from demur.guards.tool_call.address import find_addresses, is_within_domains
from demur.guards.tool_call.arguments import ArgumentPart, find_texts
from demur.model.finding import Action

__all__ = ["CredentialLeak", "find_leaks"]

_SEARCHES = tuple(
    seeker.search_ascii
    for seeker in (PRIVATE_KEYS, FORMATTED_SECRETS, ASSIGNED_SECRETS)
    if seeker.search_ascii
)
_MAIL = re2.compile(r"(?i)[a-z0-9._%+\-]{1,64}@([a-z0-9\-]{1,63}(?:\.[a-z0-9\-]{1,63}){1,8})")
_MIN_LENGTH = 8


class CredentialLeak(NamedTuple):
    """A credential, the argument that holds it, and the code and action for it."""

    place: str
    match: TextMatch
    code: str
    action: Action
    destination: str | None


def find_leaks(arguments: Mapping[str, Any], trusted: tuple[str, ...]) -> Iterator[CredentialLeak]:
    """Yield each credential in `arguments`; hosts below `trusted` may have them."""
    parts = list(find_texts(ArgumentPart("", arguments)))
    found = [(part, seen) for part in parts for seen in _search_part(part)]
    if not found:
        return
    hosts = list(_public_hosts(parts))
    foreign = next((host for host in hosts if not is_within_domains(host, trusted)), None)
    for part, seen in found:
        if foreign is not None:
            yield CredentialLeak(
                part.place, seen, ReasonCode.EXFILTRATION_RISK, seen.action, foreign
            )
        elif hosts:
            yield CredentialLeak(part.place, seen, seen.code, Action.WARN, hosts[0])
        else:
            yield CredentialLeak(part.place, seen, seen.code, seen.action, None)


def _search_part(part: ArgumentPart) -> list[TextMatch]:
    text = part.value
    if len(text) < _MIN_LENGTH:
        return []
    view = make_ascii_view(text)
    seen = {
        (each.start, each.end): each
        for search in _SEARCHES
        for each in search_view(view, search, text, 0, final=True).matches
    }
    # The argument's name can mark its value as a secret: `{"api_key": "…"}`.
    name = part.place.rpartition(".")[2]
    if not seen and " " not in text and not name.isdecimal():
        lead = f"{name}="
        for each in ASSIGNED_SECRETS.search(lead + text, 0, True).matches:
            start, end = max(0, each.start - len(lead)), each.end - len(lead)
            seen[start, end] = each._replace(start=start, end=end)
    return [seen[span] for span in sorted(seen)]


def _public_hosts(parts: list[ArgumentPart]) -> Iterator[str]:
    """Yield the public hosts that the call names."""
    for part in parts:
        for address in find_addresses(part.value):
            if address.reach == "public":
                yield address.host
        if "@" in part.value:
            plain = part.value.encode("utf-8", "replace").decode()
            yield from (found[1].casefold() for found in _MAIL.finditer(plain))
