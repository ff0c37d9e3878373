"""Approval of a tool call by a person, the same in every framework.

An approval alone lifts nothing: only a signed grant from a trusted key does.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from inspect import isawaitable
from typing import Any, Literal, get_args

from demur.enforce.result import CheckResult
from demur.errors import InputError
from demur.model.grant import Grant

__all__ = ["Approval", "GrantFor", "acollect_grants", "check_approval", "collect_grants"]

# `message` tells the model; `interrupt` uses the framework's own pause.
Approval = Literal["message", "interrupt"]
_Grants = Iterable[Grant] | None
# Returns the grants for an approved call, given its check result and the framework's context.
# It may be async where the framework awaits.
GrantFor = Callable[[CheckResult, Any], _Grants | Awaitable[_Grants]]

_log = logging.getLogger("demur")


def check_approval(approval: Approval) -> Approval:
    """Return the approval mode.

    Raises:
        InputError: There is no such mode.
    """
    if approval not in get_args(Approval):
        help_text = "`message` or `interrupt`"
        raise InputError(f"unknown mode `{approval}`", where="approval", help=help_text)
    return approval


def collect_grants(
    grant_for: GrantFor | None, result: CheckResult, context: Any
) -> tuple[Grant, ...]:
    """Return the grants for an approved call; none without `grant_for` or if it fails."""
    # INVARIANT: a `grant_for` that fails grants nothing.
    try:
        given = None if grant_for is None else grant_for(result, context)
        if isinstance(given, Coroutine):
            given.close()
        return _check_grants(given)
    except Exception as error:  # noqa: BLE001 - the host's own function may raise anything
        return _log_no_grants(error)


async def acollect_grants(
    grant_for: GrantFor | None, result: CheckResult, context: Any
) -> tuple[Grant, ...]:
    """Return the grants for an approved call, like `collect_grants`; `grant_for` may be async."""
    try:
        given = None if grant_for is None else grant_for(result, context)
        return _check_grants(await given if isawaitable(given) else given)
    except Exception as error:  # noqa: BLE001 - the host's own function may raise anything
        return _log_no_grants(error)


def _check_grants(value: Any) -> tuple[Grant, ...]:
    grants = () if value is None else tuple(value)
    if not all(isinstance(one, Grant) for one in grants):
        raise TypeError("`grant_for` must return grants")
    return grants


def _log_no_grants(error: Exception) -> tuple[Grant, ...]:
    # Log the type only: the message of an error may quote the call.
    _log.error("`grant_for` gave no grants: %s", type(error).__name__)
    return ()
