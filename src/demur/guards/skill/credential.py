"""Credentials that a skill's files hold, by the searches of the surface `output`.

Whoever has the skill has them; that is a leak of its author's, and no attack on its user.
"""

from collections.abc import Iterator

from demur.guards.secrets.assigned import ASSIGNED_SECRETS
from demur.guards.secrets.private_keys import PRIVATE_KEYS
from demur.guards.secrets.secret_text import FORMATTED_SECRETS
from demur.guards.skill.sighting import SkillHit, soften_action
from demur.model.finding import Action

__all__ = ["find_credentials"]

_SEEKERS = (PRIVATE_KEYS, FORMATTED_SECRETS, ASSIGNED_SECRETS)
# A value that is secret only by its name is often an example or a placeholder.
_DOUBTFUL = "assigned secret"
_MAX_SEARCHED_LENGTH = 2_000_000


def find_credentials(text: str) -> Iterator[SkillHit]:
    """Yield the credentials in `text`, each by its kind and never by its value."""
    found = [
        each
        for seeker in _SEEKERS
        for each in seeker.search(text[:_MAX_SEARCHED_LENGTH], 0, True).matches
    ]
    taken = 0
    for each in sorted(found, key=lambda one: (one.start, -one.end)):
        if each.start < taken:
            continue
        taken = each.end
        kind = str(each.evidence["kind"])
        yield SkillHit(
            "CREDENTIAL",
            each.start,
            each.end,
            f"holds a credential: {kind}",
            {"kind": kind},
            action=Action.WARN if kind == _DOUBTFUL else soften_action(each.action),
        )
