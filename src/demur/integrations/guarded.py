"""Plain Python: a function that runs only if the gate lets it, and a block that does.

The call is decided by its arguments before anything happens. What was allowed within limits
reaches the function: as its keyword-only parameter `constraints`, or by `current_ruling()`.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeVar, cast

import msgspec

from demur.errors import InputError, InputTypeError
from demur.gate.enforcer import Enforcer
from demur.gate.gate import Gate
from demur.gate.ruling import Refused, Ruling
from demur.integrations.guarded_call import Asked, Asking, Request
from demur.integrations.guarded_parameters import CONSTRAINTS, Arguments, Parameters, data
from demur.model.grant import Grant

__all__ = ["current_ruling", "guarded", "guarding"]

OnRefusal = Literal["raise", "return"] | Callable[[Ruling], Any]
Subject = Mapping[str, Any] | Callable[[Arguments], Mapping[str, Any] | None]
Name = str | Callable[[Arguments], str | None]
Grants = Iterable[Grant] | Callable[[Arguments], Iterable[Grant]]
_Function = TypeVar("_Function", bound=Callable[..., Any])

_current: ContextVar[Ruling | None] = ContextVar("demur_ruling", default=None)


def current_ruling() -> Ruling | None:
    """Return the ruling by which the guarded function or block that is running may run."""
    return _current.get()


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
    accepts: Iterable[str] = (),
    result: bool | Callable[[Any], Any] = False,
    on_refusal: OnRefusal = "raise",
) -> Callable[[_Function], _Function]:
    """Return a decorator: the function, sync or async, runs only if its call is allowed.

    The action is named like the function, unless `action` names it. The request is the call
    with its arguments; an argument `amount` is the amount of the action, in the currency that
    an argument or `currency` names. `request` returns parts to add, which beat what the
    arguments say. `subject` (`id`, `type`, `roles`) is who asks, `run` the agent's run, by
    which loops are seen; `accepts` are constraints that the function honours. What is a
    function here is given the arguments by name; of a method, also `self`. With `result`, what
    came of the call is looked at as well, or what `result` makes of it.

    A refused call raises `Refused`, returns the `Ruling`, or returns what `on_refusal` makes
    of the ruling.

    Raises:
        InputError: The action has no name, or a setting cannot be used.
        InputTypeError: It is no function that can be guarded.
    """
    if on_refusal not in ("raise", "return") and not callable(on_refusal):
        help_text = "`raise`, `return`, or a function of the ruling"
        raise InputError("unknown way to refuse", where="on_refusal", help=help_text)
    told = {"subject": subject, "tenant": tenant, "run": run}
    asking = Asking.of(by, request, accepts, grants, **told)
    usual = {} if currency is None else {"currency": currency}

    def decorate(function: _Function) -> _Function:
        _check(function)
        named = _name(function) if action is None else action
        taken = Parameters.of(function)
        guard = _Guard(function, taken, asking, named, usual, result, on_refusal)
        return cast("_Function", guard.wrapper())

    return decorate


class guarding:  # noqa: N801 - it reads like what `contextlib` has
    """A block that runs only if its action is allowed: `with guarding(...) as ruling:`.

    `async with` awaits the decision. The settings are those of `guarded`; functions among them
    are given `arguments`. Entering it decides, and gives the ruling or raises `Refused`. It can
    be entered once.
    """

    def __init__(
        self,
        by: Enforcer | Gate,
        action: str,
        arguments: Arguments | None = None,
        *,
        request: Request | None = None,
        subject: Subject | None = None,
        tenant: Name | None = None,
        run: Name | None = None,
        grants: Grants = (),
        accepts: Iterable[str] = (),
    ) -> None:
        told = {"subject": subject, "tenant": tenant, "run": run}
        given = {} if arguments is None else dict(arguments)
        shown = {name: data(value) for name, value in given.items()}
        asking = Asking.of(by, request, accepts, grants, **told)
        self._asked: Asked | None = asking.about(action, given, shown)
        self._token: Token[Ruling | None] | None = None

    def __enter__(self) -> Ruling:
        return self._entered(self._once().rule())

    async def __aenter__(self) -> Ruling:
        return self._entered(await self._once().arule())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._token is not None
        # A generator may be closed in another context than the one it was begun in.
        with suppress(ValueError):
            _current.reset(self._token)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def _once(self) -> Asked:
        asked, self._asked = self._asked, None
        if asked is None:
            raise InputError("a guarded block is entered once", help="make another `guarding`")
        return asked

    def _entered(self, ruling: Ruling) -> Ruling:
        self._token = _current.set(ruling.or_raise())
        return ruling


class _Guard(NamedTuple):
    """A function, and what stands before and behind it."""

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
        # Frameworks read what a tool takes; what the guard fills in is none of their business.
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
            token = _current.set(ruling)
            try:
                value = self.function(*args, **kwargs, **self._filled_in(ruling))
            finally:
                _current.reset(token)
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
                return self._refuse(ruling)
            token = _current.set(ruling)
            try:
                value = await self.function(*args, **kwargs, **self._filled_in(ruling))
            finally:
                _current.reset(token)
            if not self.result:
                return value
            after = await asked.arule_result(self._seen(value))
            return value if after.allowed else self._refuse(after)

        return call

    def _asked(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Asked:
        given = self.parameters.named(args, kwargs)
        shown = {**self.usual, **self.parameters.shown(given)}
        return self.asking.about(self.action, given, shown)

    def _filled_in(self, ruling: Ruling) -> dict[str, Any]:
        return {CONSTRAINTS: ruling.constraints} if self.parameters.constrained else {}

    def _seen(self, value: Any) -> Any:
        """Return what is looked at of a result; what cannot be is not handed on unseen."""
        shown = data(self.result(value) if callable(self.result) else value)
        try:
            return msgspec.to_builtins(shown, str_keys=True)
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            problem = f"a `{type(shown).__name__}` cannot be looked at"
            help_text = "pass `result=`, a function that makes a text or JSON of it"
            raise InputError(problem, where="result", help=help_text) from error

    def _refuse(self, ruling: Ruling) -> Any:
        if callable(self.on_refusal):
            return self.on_refusal(ruling)
        if self.on_refusal == "return":
            return ruling
        raise Refused(ruling)


def _check(function: Any) -> None:
    if isinstance(function, staticmethod | classmethod):
        help_text = "put `@guarded` below `@staticmethod` or `@classmethod`"
        raise InputTypeError("a function of a class is guarded from inside", help=help_text)
    if not callable(function) or inspect.isclass(function):
        raise InputTypeError.expected("what is guarded", "a function", function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        help_text = "use `with guarding(...)` inside it"
        raise InputTypeError("a generator runs after it was called", help=help_text)


def _name(function: Any) -> str:
    name = str(getattr(function, "__name__", ""))
    if not name.isidentifier():
        raise InputError("the function has no name", where="action", help="pass `action=`")
    return name


def _is_awaited(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - of an object that is called
    )
