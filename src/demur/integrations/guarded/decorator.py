"""A function, sync or async, that runs only if its call is allowed."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar, cast

from demur.enforce.described import plain
from demur.enforce.enforcer import Enforcer
from demur.enforce.ruling import Refused, Ruling
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.integrations.guarded.asking import Asked, Asking, Grants, Name, Request, Subject
from demur.integrations.guarded.current import current
from demur.integrations.guarded.parameters import CONSTRAINTS, Arguments, Parameters

__all__ = ["guarded"]

OnRefusal = Literal["raise", "return"] | Callable[[Ruling], Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])


def guarded(
    by: Enforcer | Gate,
    *,
    action: str | Callable[[Arguments], str] | None = None,
    currency: str | None = None,
    request: Request | None = None,
    subject: Subject | None = None,
    tenant: Name | None = None,
    run: Name | None = None,
    grants: Grants = (),
    accepted: Iterable[str] = (),
    result: bool | Callable[[Any], Any] = False,
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
    `on_refusal(result)`, awaited if necessary.

    Raises:
        InputError: The action has no name, or an option is invalid.
        InputTypeError: The decorated object is not a function that can be guarded.
    """
    if on_refusal not in ("raise", "return") and not callable(on_refusal):
        help_text = "`raise`, `return`, or a function of the check result"
        raise InputError("unknown value", where="on_refusal", help=help_text)
    told = {"subject": subject, "tenant": tenant, "run": run}
    asking = Asking.of(by, request, accepted, grants, **told)
    usual = {} if currency is None else {"currency": currency}

    def decorate(function: _Function) -> _Function:
        _check(function, on_refusal)
        named = _name(function) if action is None else action
        taken = Parameters.of(function)
        guard = _Guard(function, taken, asking, named, usual, result, on_refusal)
        return cast("_Function", guard.wrapper())

    return decorate


class _Guard(NamedTuple):
    """A function with the checks before and after it."""

    function: Callable[..., Any]
    parameters: Parameters
    asking: Asking
    action: str | Callable[[Arguments], str]
    usual: Arguments
    result: bool | Callable[[Any], Any]
    on_refusal: OnRefusal

    def wrapper(self) -> Callable[..., Any]:
        function = self.function
        call = self._awaited() if _is_awaited(function) else self._called()
        wrapper: Any = functools.update_wrapper(call, function)
        # Frameworks read a tool's signature; they must not see the parameter that demur fills in.
        wrapper.__signature__ = self.parameters.signature
        hints = getattr(function, "__annotations__", {})
        if self.parameters.constrained:
            wrapper.__annotations__ = {n: hint for n, hint in hints.items() if n != CONSTRAINTS}
        return cast("Callable[..., Any]", wrapper)

    def _called(self) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            asked = self._asked(args, kwargs)
            ruling = asked.rule()
            # INVARIANT: a guarded function runs only if the ruling on its call allows it.
            if not ruling.allowed:
                return self._refuse(ruling)
            token = current.set(ruling)
            try:
                value = self.function(*args, **kwargs, **self._filled_in(ruling))
            finally:
                current.reset(token)
            if not self.result:
                return value
            after = asked.rule_result(self._seen(value))
            return value if after.allowed else self._refuse(after)

        return call

    def _awaited(self) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            asked = self._asked(args, kwargs)
            ruling = await asked.arule()
            if not ruling.allowed:
                return await self._arefuse(ruling)
            token = current.set(ruling)
            try:
                value = await self.function(*args, **kwargs, **self._filled_in(ruling))
            finally:
                current.reset(token)
            if not self.result:
                return value
            after = await asked.arule_result(self._seen(value))
            return value if after.allowed else await self._arefuse(after)

        return call

    def _asked(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Asked:
        given = self.parameters.named(args, kwargs)
        shown = {**self.usual, **self.parameters.shown(given)}
        return self.asking.about(self.action, given, shown)

    def _filled_in(self, ruling: Ruling) -> dict[str, Any]:
        return {CONSTRAINTS: ruling.constraints} if self.parameters.constrained else {}

    def _seen(self, value: Any) -> Any:
        """Return the result as plain JSON; raise if it cannot be checked."""
        return plain(self.result(value) if callable(self.result) else value, opaque=_unseen)

    def _refuse(self, ruling: Ruling) -> Any:
        if callable(self.on_refusal):
            return self.on_refusal(ruling)
        if self.on_refusal == "return":
            return ruling
        raise Refused(ruling)

    async def _arefuse(self, ruling: Ruling) -> Any:
        told = self._refuse(ruling)
        return await told if inspect.isawaitable(told) else told


def _unseen(value: Any) -> str:
    problem = f"a `{type(value).__name__}` cannot be checked"
    help_text = "pass a function as `result=` that returns a text or JSON"
    raise InputError(problem, where="result", help=help_text)


def _check(function: Any, on_refusal: OnRefusal) -> None:
    if isinstance(function, staticmethod | classmethod):
        help_text = "put `@guarded` below `@staticmethod` or `@classmethod`"
        raise InputTypeError("`@guarded` does not support method objects", help=help_text)
    if not callable(function) or inspect.isclass(function):
        raise InputTypeError.expected("the guarded object", "a function", function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        help_text = "use `with guarding(...)` inside it"
        raise InputTypeError("`@guarded` does not support generator functions", help=help_text)
    if _is_awaited(on_refusal) and not _is_awaited(function):
        help_text = "pass a sync function as `on_refusal`"
        raise InputTypeError("a sync function cannot await an async `on_refusal`", help=help_text)


def _name(function: Any) -> str:
    name = str(getattr(function, "__name__", ""))
    if not name.isidentifier():
        raise InputError("the function has no name", where="action", help="pass `action=`")
    return name


def _is_awaited(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - of a callable object
    )
