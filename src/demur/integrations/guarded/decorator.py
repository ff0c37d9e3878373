"""A function, sync or async, that runs only if its call is allowed."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar, cast

from demur.enforce.described import to_json_value
from demur.enforce.enforcer import Enforcer
from demur.enforce.ruling import Refused, CheckResult
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.integrations.guarded.asking import (
    GuardedCall,
    CallSettings,
    GrantSource,
    NameSource,
    RequestSource,
    SubjectSource,
)
from demur.integrations.guarded.current import _current_result
from demur.integrations.guarded.parameters import CONSTRAINTS, Arguments, FunctionParameters

__all__ = ["guarded"]

OnRefusal = Literal["raise", "return"] | Callable[[CheckResult], Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])


def guarded(
    enforcer: Enforcer | Gate,
    *,
    action: str | Callable[[Arguments], str] | None = None,
    currency: str | None = None,
    request: RequestSource | None = None,
    subject: SubjectSource | None = None,
    tenant: NameSource | None = None,
    run: NameSource | None = None,
    grants: GrantSource = (),
    accepted: Iterable[str] = (),
    check_result: bool | Callable[[Any], Any] = False,
    on_refusal: OnRefusal = "raise",
) -> Callable[[_Function], _Function]:
    """Return a decorator: the function, sync or async, runs only if its call is allowed.

    `action` names the action; the default is the function's name. The request consists of the
    call and its arguments. An argument `amount` is the amount of the action, in the currency of
    an argument `currency` or of the option. `request` returns parts that override the
    arguments; it replaces the enforcer's `describe`. `subject` (`id`, `type`, `roles`) is the
    caller, `run` the agent's run, which loop detection uses. `accepted` lists constraints that
    the function honours. Options that are functions get the arguments by name, `self` included;
    if one raises, the call is refused. With `check_result`, the enforcer also checks the
    returned value, or what a function `check_result` makes of it.

    A refused call raises `Refused`, returns the check result, or returns the value of
    `on_refusal(check_result)`, awaited if necessary.

    Raises:
        InputError: The action has no name, or an option is invalid.
        InputTypeError: The decorated object is not a function that can be guarded.
    """
    if on_refusal not in ("raise", "return") and not callable(on_refusal):
        help_text = "`raise`, `return`, or a function of the check result"
        raise InputError("unknown value", where="on_refusal", help=help_text)
    told = {"subject": subject, "tenant": tenant, "run": run}
    asking = CallSettings.from_options(enforcer, request, accepted, grants, **told)
    usual = {} if currency is None else {"currency": currency}

    def decorate(function: _Function) -> _Function:
        _check_function(function, on_refusal)
        named = _function_name(function) if action is None else action
        taken = FunctionParameters.from_function(function)
        guard = _FunctionGuard(function, taken, asking, named, usual, check_result, on_refusal)
        return cast("_Function", guard.wrap_function())

    return decorate


class _FunctionGuard(NamedTuple):
    """A function with the checks before and after it."""

    function: Callable[..., Any]
    parameters: FunctionParameters
    settings: CallSettings
    action: str | Callable[[Arguments], str]
    defaults: Arguments
    check_result: bool | Callable[[Any], Any]
    on_refusal: OnRefusal

    def wrap_function(self) -> Callable[..., Any]:
        function = self.function
        call = self._make_async_call() if _is_async(function) else self._make_sync_call()
        wrapper: Any = functools.update_wrapper(call, function)
        # Frameworks read a tool's signature; they must not see the parameter that demur fills in.
        wrapper.__signature__ = self.parameters.signature
        hints = getattr(function, "__annotations__", {})
        if self.parameters.takes_constraints:
            wrapper.__annotations__ = {n: hint for n, hint in hints.items() if n != CONSTRAINTS}
        return cast("Callable[..., Any]", wrapper)

    def _make_sync_call(self) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            asked = self._build_call(args, kwargs)
            ruling = asked.check()
            # INVARIANT: a guarded function runs only if the ruling on its call allows it.
            if not ruling.allowed:
                return self._handle_refusal(ruling)
            token = _current_result.set(ruling)
            try:
                value = self.function(*args, **kwargs, **self._extra_arguments(ruling))
            finally:
                _current_result.reset(token)
            if not self.check_result:
                return value
            after = asked.check_result(self._readable_result(value))
            return value if after.allowed else self._handle_refusal(after)

        return call

    def _make_async_call(self) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            asked = self._build_call(args, kwargs)
            ruling = await asked.acheck()
            if not ruling.allowed:
                return await self._ahandle_refusal(ruling)
            token = _current_result.set(ruling)
            try:
                value = await self.function(*args, **kwargs, **self._extra_arguments(ruling))
            finally:
                _current_result.reset(token)
            if not self.check_result:
                return value
            after = await asked.acheck_result(self._readable_result(value))
            return value if after.allowed else await self._ahandle_refusal(after)

        return call

    def _build_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> GuardedCall:
        given = self.parameters.bind_arguments(args, kwargs)
        shown = {**self.defaults, **self.parameters.visible_arguments(given)}
        return self.settings.build_call(self.action, given, shown)

    def _extra_arguments(self, result: CheckResult) -> dict[str, Any]:
        return {CONSTRAINTS: result.constraints} if self.parameters.takes_constraints else {}

    def _readable_result(self, value: Any) -> Any:
        """Return the result as plain JSON; raise if it cannot be checked."""
        return to_json_value(
            self.check_result(value) if callable(self.check_result) else value,
            opaque=_reject_opaque,
        )

    def _handle_refusal(self, result: CheckResult) -> Any:
        if callable(self.on_refusal):
            return self.on_refusal(result)
        if self.on_refusal == "return":
            return result
        raise Refused(result)

    async def _ahandle_refusal(self, result: CheckResult) -> Any:
        told = self._handle_refusal(result)
        return await told if inspect.isawaitable(told) else told


def _reject_opaque(value: Any) -> str:
    problem = f"a `{type(value).__name__}` cannot be checked"
    help_text = "pass a function as `result=` that returns a text or JSON"
    raise InputError(problem, where="result", help=help_text)


def _check_function(function: Any, on_refusal: OnRefusal) -> None:
    if isinstance(function, staticmethod | classmethod):
        help_text = "put `@guarded` below `@staticmethod` or `@classmethod`"
        raise InputTypeError("`@guarded` does not support method objects", help=help_text)
    if not callable(function) or inspect.isclass(function):
        raise InputTypeError.wrong_type("the guarded object", "a function", function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        help_text = "use `with guarding(...)` inside it"
        raise InputTypeError("`@guarded` does not support generator functions", help=help_text)
    if _is_async(on_refusal) and not _is_async(function):
        help_text = "pass a sync function as `on_refusal`"
        raise InputTypeError("a sync function cannot await an async `on_refusal`", help=help_text)


def _function_name(function: Any) -> str:
    name = str(getattr(function, "__name__", ""))
    if not name.isidentifier():
        raise InputError("the function has no name", where="action", help="pass `action=`")
    return name


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - of a callable object
    )
