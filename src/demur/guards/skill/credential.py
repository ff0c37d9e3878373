"""Credentials that a skill's files hold, by the searches of the surface `output`.

Whoever has the skill has them; that is a leak of its author's, and no attack on its user.
"""

from collections.abc import Iterator

from demur.guards.secrets.assigned import ASSIGNED_SECRETS
from demur.guards.secrets.private_keys import PRIVATE_KEYS
from demur.guards.secrets.secret_text import FORMATTED_SECRETS
from demur.guards.skill.sighting import Sighting, milder
from demur.model.finding import Action

__all__ = ["see_credentials"]

_SEEKERS = (PRIVATE_KEYS, FORMATTED_SECRETS, ASSIGNED_SECRETS)
# A value that is secret only by its name is often an example or a placeholder.
_DOUBTFUL = "assigned secret"
_LONGEST = 2_000_000


def see_credentials(text: str) -> Iterator[Sighting]:
    """Yield the credentials in `text`, each by its kind and never by its value."""
    found = [each for seeker in _SEEKERS for each in seeker.seek(text[:_LONGEST], 0, True).seen]
    taken = 0
    for each in sorted(found, key=lambda one: (one.start, -one.end)):
        if each.start < taken:
            continue
        taken = each.end
        kind = str(each.evidence["kind"])
        yield Sighting(
            "CREDENTIAL",
            each.start,
            each.end,
            f"holds a credential: {kind}",
            {"kind": kind},
            action=Action.WARN if kind == _DOUBTFUL else milder(each.action),
        )
