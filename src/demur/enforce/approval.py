"""How a call that waits for a person's approval asks for it, in any framework.

An approval alone lifts nothing: a signed grant does, from whoever is trusted to say yes.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

from demur.enforce.ruling import Ruling
from demur.errors import InputError
from demur.model.grant import Grant

__all__ = ["Approval", "GrantFor", "check_approval"]

# By a message to the model, or by the framework's own pause.
Approval = Literal["message", "interrupt"]
# From the ruling on a call that somebody approved, and what the framework tells of it, to the
# grants that speak for it.
GrantFor = Callable[[Ruling, Any], Iterable[Grant]]


def check_approval(approval: Approval) -> Approval:
    """Return the way to ask for approval.

    Raises:
        InputError: There is no such way.
    """
    if approval not in get_args(Approval):
        help_text = "`message` or `interrupt`"
        raise InputError(f"unknown way to ask `{approval}`", where="approval", help=help_text)
    return approval
