"""What a paused run is resumed with: grants, a plain approval, or anything else, which is a no."""

import json
from threading import Lock
from typing import Any

from demur.enforce.approval import GrantFor
from demur.errors import GrantError
from demur.model.grant import Grant

__all__ = ["Consent", "approves", "grants_of"]

_APPROVE = "approve"
_KEPT_AT_MOST = 1000


class Consent:
    """Who gives grants for what was approved; nobody is asked twice for one yes.

    A tool that pauses the run itself begins anew after it, and so does all that comes before the
    tool. The grants of such a call are kept meanwhile, in this process alone.
    """

    def __init__(self, grant_for: GrantFor | None) -> None:
        self.grant_for = grant_for
        self._kept: dict[str, tuple[Grant, ...]] = {}
        self._lock = Lock()

    def keep(self, name: str, grants: tuple[Grant, ...]) -> None:
        """Keep the grants of a call; of too many, those kept longest are forgotten."""
        with self._lock:
            self._kept[name] = grants
            if len(self._kept) > _KEPT_AT_MOST:
                del self._kept[next(iter(self._kept))]

    def taken(self, name: str) -> tuple[Grant, ...]:
        """Return the grants kept for a call, which are no longer kept then; often none."""
        with self._lock:
            return self._kept.pop(name, ())


def approves(answer: Any) -> bool:
    """Return whether somebody approved, in one of the ways in which the framework has it said.

    These are `True`, `"approve"`, and a decision of the type `approve`, alone or as the only one
    of the `decisions`.
    """
    if isinstance(answer, dict):
        decisions = answer.get("decisions", [answer])
        return isinstance(decisions, list) and list(map(_type_of, decisions)) == [_APPROVE]
    return answer is True or answer == _APPROVE


def grants_of(answer: Any) -> tuple[Grant, ...]:
    """Return the grants in what somebody answered who was asked for approval; often none.

    A grant as JSON text or as the object that the text is, alone or several in a list, also
    under `grants`. Whether they hold is judged elsewhere.
    """
    if isinstance(answer, dict) and "grants" in answer:
        answer = answer["grants"]
    given = answer if isinstance(answer, list | tuple) else [answer]
    try:
        return tuple(map(_grant, given))
    except (GrantError, TypeError, ValueError):
        return ()


def _grant(given: Any) -> Grant:
    return Grant.from_json(given if isinstance(given, str | bytes) else json.dumps(given))


def _type_of(decision: Any) -> Any:
    return decision.get("type") if isinstance(decision, dict) else None
