"""What holds for all calls of a guarded client."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

from demur.enforce.enforcer import Enforcer, CallContext
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.integrations.model_client.memory import RefusedTexts, refused_texts_for

__all__ = ["Fallback", "OnRefusal", "ModelClientSettings", "build_settings"]

OnRefusal = Literal["raise", "answer"]
# The name of another model, or a function from a request to a response.
Fallback = str | Callable[[dict[str, Any]], Any]


class ModelClientSettings(NamedTuple):
    """The settings of a guarded client. Build them with `build_settings`."""

    enforcer: Enforcer
    context: CallContext
    on_refusal: OnRefusal
    fallbacks: tuple[Fallback, ...]
    retry_after_wait: bool
    sleep: Callable[[float], Any]
    trusts_history: bool
    allow_raw_bytes: bool
    refused_texts: RefusedTexts


def build_settings(
    enforcer_or_gate: Enforcer | Gate,
    framework: str,
    *,
    context: CallContext | None,
    on_refusal: OnRefusal,
    fallbacks: Sequence[Fallback],
    retry_after_wait: bool,
    sleep: Callable[[float], Any],
    trusts_history: bool,
    allow_raw_bytes: bool,
) -> ModelClientSettings:
    """Return validated settings; a gate gets an enforcer with default options.

    Raises:
        InputError: A setting is invalid.
    """
    enforcer = Enforcer.from_gate(enforcer_or_gate)
    if on_refusal not in get_args(OnRefusal):
        help_text = f"one of {', '.join(get_args(OnRefusal))}"
        raise InputError(f"unknown setting `{on_refusal}`", where="on_refusal", help=help_text)
    if isinstance(fallbacks, str):
        raise InputTypeError.wrong_type("fallbacks", "a list of models", fallbacks)
    where = CallContext() if context is None else context
    named = where if where.framework else where._replace(framework=framework)
    return ModelClientSettings(
        enforcer=enforcer,
        context=named,
        on_refusal=on_refusal,
        fallbacks=tuple(fallbacks),
        retry_after_wait=retry_after_wait,
        sleep=sleep,
        trusts_history=trusts_history,
        allow_raw_bytes=allow_raw_bytes,
        refused_texts=refused_texts_for(enforcer_or_gate),
    )
