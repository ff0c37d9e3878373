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
from demur.guards.secrets.ascii_view import ascii_view, seek_in
from demur.guards.secrets.assigned import ASSIGNED_SECRETS
from demur.guards.secrets.private_keys import PRIVATE_KEYS
from demur.guards.secrets.secret_text import FORMATTED_SECRETS
from demur.guards.text_rules.seeking import Seen
from demur.guards.tool_call.address import addresses, is_within
from demur.guards.tool_call.arguments import Part, texts
from demur.model.finding import Action

__all__ = ["Leak", "leaks"]

_SEARCHES = tuple(
    seeker.in_ascii
    for seeker in (PRIVATE_KEYS, FORMATTED_SECRETS, ASSIGNED_SECRETS)
    if seeker.in_ascii
)
_MAIL = re2.compile(r"(?i)[a-z0-9._%+\-]{1,64}@([a-z0-9\-]{1,63}(?:\.[a-z0-9\-]{1,63}){1,8})")
_SHORTEST = 8


class Leak(NamedTuple):
    """A credential, the argument that holds it, and the code and action for it."""

    place: str
    seen: Seen
    code: str
    action: Action
    destination: str | None


def leaks(arguments: Mapping[str, Any], trusted: tuple[str, ...]) -> Iterator[Leak]:
    """Yield each credential in `arguments`; hosts below `trusted` may have them."""
    parts = list(texts(Part("", arguments)))
    found = [(part, seen) for part in parts for seen in _seek(part)]
    if not found:
        return
    hosts = list(_hosts(parts))
    foreign = next((host for host in hosts if not is_within(host, trusted)), None)
    for part, seen in found:
        if foreign is not None:
            yield Leak(part.place, seen, ReasonCode.EXFILTRATION_RISK, seen.action, foreign)
        elif hosts:
            yield Leak(part.place, seen, seen.code, Action.WARN, hosts[0])
        else:
            yield Leak(part.place, seen, seen.code, seen.action, None)


def _seek(part: Part) -> list[Seen]:
    text = part.value
    if len(text) < _SHORTEST:
        return []
    view = ascii_view(text)
    seen = {
        (each.start, each.end): each
        for search in _SEARCHES
        for each in seek_in(view, search, text, 0, final=True).seen
    }
    # The argument's name can mark its value as a secret: `{"api_key": "…"}`.
    name = part.place.rpartition(".")[2]
    if not seen and " " not in text and not name.isdecimal():
        lead = f"{name}="
        for each in ASSIGNED_SECRETS.seek(lead + text, 0, True).seen:
            start, end = max(0, each.start - len(lead)), each.end - len(lead)
            seen[start, end] = each._replace(start=start, end=end)
    return [seen[span] for span in sorted(seen)]


def _hosts(parts: list[Part]) -> Iterator[str]:
    """Yield the public hosts that the call names."""
    for part in parts:
        for address in addresses(part.value):
            if address.reach == "public":
                yield address.host
        if "@" in part.value:
            plain = part.value.encode("utf-8", "replace").decode()
            yield from (found[1].casefold() for found in _MAIL.finditer(plain))
