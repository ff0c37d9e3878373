"""What a paused run is resumed with: grants, a plain approval, or anything else, which is a no."""

import json
from typing import Any

from demur.errors import GrantError
from demur.model.grant import Grant

__all__ = ["approves", "grants_of"]

_APPROVE = "approve"


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
