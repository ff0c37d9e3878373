"""What holds for all calls of a guarded client."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

from demur.enforce.enforcer import Enforcer, Occasion
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.integrations.model_client.memory import Memory, memory_of

__all__ = ["Fallback", "OnRefusal", "Settings", "settings_of"]

OnRefusal = Literal["raise", "answer"]
# The name of another model, or a function from a request to a response.
Fallback = str | Callable[[dict[str, Any]], Any]


class Settings(NamedTuple):
    """The settings of a guarded client. Build them with `build_settings`."""

    enforcer: Enforcer
    at: Occasion
    on_refusal: OnRefusal
    fallbacks: tuple[Fallback, ...]
    waits: bool
    sleep: Callable[[float], Any]
    trusts_history: bool
    trusts_bytes: bool
    refused: Memory


def settings_of(
    by: Enforcer | Gate,
    framework: str,
    *,
    at: Occasion | None,
    on_refusal: OnRefusal,
    fallbacks: Sequence[Fallback],
    waits: bool,
    sleep: Callable[[float], Any],
    trusts_history: bool,
    trusts_bytes: bool,
) -> Settings:
    """Return validated settings; a gate gets an enforcer with default options.

    Raises:
        InputError: A setting is invalid.
    """
    enforcer = Enforcer.of(by)
    if on_refusal not in get_args(OnRefusal):
        help_text = f"one of {', '.join(get_args(OnRefusal))}"
        raise InputError(f"unknown setting `{on_refusal}`", where="on_refusal", help=help_text)
    if isinstance(fallbacks, str):
        raise InputTypeError.expected("fallbacks", "a list of models", fallbacks)
    where = Occasion() if at is None else at
    named = where if where.framework else where._replace(framework=framework)
    return Settings(
        enforcer=enforcer,
        at=named,
        on_refusal=on_refusal,
        fallbacks=tuple(fallbacks),
        waits=waits,
        sleep=sleep,
        trusts_history=trusts_history,
        trusts_bytes=trusts_bytes,
        refused=memory_of(by),
    )
