"""Read approvals and grants that a framework hands back when a paused run is resumed."""

import json
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock
from typing import Any

import msgspec

from demur.enforce.result import GrantFor
from demur.errors import GrantError
from demur.model.grant import Grant

_APPROVE = "approve"
_MAX_KEPT = 1000


class ApprovalGrants:
    """Looks up grants for approved calls, and keeps them while a tool interrupts the run.

    A tool that interrupts the run starts again when it is resumed, and so do the checks before
    it. Its grants are kept meanwhile, in this process only, so that `grant_for` is asked once.
    """

    def __init__(self, grant_for: GrantFor | None) -> None:
        self.grant_for = grant_for
        self._kept: dict[str, tuple[Grant, ...]] = {}
        self._lock = Lock()

    def keep_grants(self, name: str, grants: tuple[Grant, ...]) -> None:
        """Keep the grants of a call; beyond a limit the oldest are dropped."""
        with self._lock:
            self._kept[name] = grants
            if len(self._kept) > _MAX_KEPT:
                del self._kept[next(iter(self._kept))]

    def take_grants(self, name: str) -> tuple[Grant, ...]:
        """Remove and return the grants of a call, if any."""
        with self._lock:
            return self._kept.pop(name, ())


def is_approval(answer: Any) -> bool:
    """Return whether a resume value is an approval, in one of LangChain's formats.

    These are `True`, `"approve"`, and a decision of type `approve`, alone or as the only one of
    the `decisions`.
    """
    if isinstance(answer, dict):
        decisions = answer.get("decisions", [answer])
        if not isinstance(decisions, list) or len(decisions) != 1:
            return False
        [decision] = decisions
        return isinstance(decision, dict) and decision.get("type") == _APPROVE
    return answer is True or answer == _APPROVE


def parse_resume_grants(answer: Any) -> tuple[Grant, ...]:
    """Return the grants in a resume value; empty if anything else is in it.

    A grant is a JSON text or object, alone or in a list, also under `grants`. The gate verifies
    them later.
    """
    if isinstance(answer, dict) and "grants" in answer:
        answer = answer["grants"]
    values = answer if isinstance(answer, list | tuple) else [answer]
    try:
        texts = [one if isinstance(one, str | bytes) else json.dumps(one) for one in values]
        return tuple(map(Grant.from_json, texts))
    except (GrantError, TypeError, ValueError):
        return ()


def parse_metadata_grants(metadata: Any) -> list[Grant]:
    """Return the grants in the metadata of an approval; skip anything else."""
    fields = metadata if isinstance(metadata, Mapping) else {}
    more = fields.get("grants")
    values = [fields.get("grant"), *(more if isinstance(more, list | tuple) else ())]
    grants = []
    for one in values:
        with suppress(msgspec.MsgspecError, GrantError):
            if isinstance(one, str | bytes):
                grants.append(Grant.from_json(one))
            else:
                grants.append(one if isinstance(one, Grant) else msgspec.convert(one, Grant))
    return grants
