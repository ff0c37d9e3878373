"""How a call that waits for a person's approval asks for it, in any framework.

An approval alone lifts nothing: a signed grant does, from whoever is trusted to say yes.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from inspect import isawaitable
from typing import Any, Literal, get_args

from demur.enforce.ruling import Ruling
from demur.errors import InputError
from demur.model.grant import Grant

__all__ = ["Approval", "GrantFor", "agranted", "check_approval", "granted"]

# By a message to the model, or by the framework's own pause.
Approval = Literal["message", "interrupt"]
_Grants = Iterable[Grant] | None
# From the ruling on a call that somebody approved, and what the framework tells of it, to the
# grants that speak for it; where the framework awaits, it may be awaited.
GrantFor = Callable[[Ruling, Any], _Grants | Awaitable[_Grants]]

_log = logging.getLogger("demur")


def check_approval(approval: Approval) -> Approval:
    """Return the way to ask for approval.

    Raises:
        InputError: There is no such way.
    """
    if approval not in get_args(Approval):
        help_text = "`message` or `interrupt`"
        raise InputError(f"unknown way to ask `{approval}`", where="approval", help=help_text)
    return approval


def granted(grant_for: GrantFor | None, ruling: Ruling, context: Any) -> tuple[Grant, ...]:
    """Return the grants for a call that was approved; none where nobody gives them, or fails to."""
    # INVARIANT: who fails to grant grants nothing.
    try:
        given = None if grant_for is None else grant_for(ruling, context)
        if isinstance(given, Coroutine):
            given.close()
        return _grants(given)
    except Exception as error:  # noqa: BLE001 - the host's own function may raise anything
        return _none(error)


async def agranted(grant_for: GrantFor | None, ruling: Ruling, context: Any) -> tuple[Grant, ...]:
    """Return the grants for a call that was approved, like `granted`; they may be awaited."""
    try:
        given = None if grant_for is None else grant_for(ruling, context)
        return _grants(await given if isawaitable(given) else given)
    except Exception as error:  # noqa: BLE001 - the host's own function may raise anything
        return _none(error)


def _grants(given: Any) -> tuple[Grant, ...]:
    grants = () if given is None else tuple(given)
    if not all(isinstance(one, Grant) for one in grants):
        raise TypeError("something else than grants")
    return grants


def _none(error: Exception) -> tuple[Grant, ...]:
    # What kind alone: the words of an error may quote the call.
    _log.error("`grant_for` gave no grants: %s", type(error).__name__)
    return ()
