"""A tool call as a request: what policies read of it."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from demur.errors import InputError

__all__ = ["Describe", "describe_call", "plain"]

# From a tool's name and arguments to the parts of a request.
Describe = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


def describe_call(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the request: an action named like the tool, with its arguments as evidence.

    An argument `amount`, with `currency` beside it, is the amount of the action, too. A model
    may have written all of it: a host that knows facts for sure describes calls by them.
    """
    action: dict[str, Any] = {"type": name}
    amount = _amount(arguments)
    if amount is not None:
        action["amount"] = amount
    return {"action": action, "evidence": arguments}


def _amount(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    value = arguments.get("amount")
    if isinstance(value, int | float) and not isinstance(value, bool):
        currency = arguments.get("currency")
        return {"value": value, **({"currency": currency} if isinstance(currency, str) else {})}
    if isinstance(value, Mapping) and "value" in value:
        return dict(value)
    return None


def plain(value: Any) -> Any:
    """Return arguments as JSON; of what has no such form, the name of its type."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_name)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise InputError("the arguments cannot be put on record", where="arguments") from error


def _name(value: object) -> str:
    return f"<{type(value).__name__}>"
