"""Plain Python: `@guarded` functions and `with guarding(...)` blocks.

The enforcer checks the call with its arguments before the body runs. Constraints of an allowed
call reach the function as its keyword-only parameter `constraints`, or by
`current_check_result()`.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, partial
from threading import Lock
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypedDict, TypeVar, cast
from weakref import WeakKeyDictionary

from demur.codes.vocabulary import Surface
from demur.enforce.context import CallContext
from demur.enforce.describe import DescribeCall, describe_call, to_json_value
from demur.enforce.enforcer import Enforcer
from demur.enforce.history import LocalCallHistories
from demur.enforce.result import CheckResult, Refused
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline, standard_pipeline
from demur.model.grant import Grant

__all__ = ["current_check_result", "guarded", "guarding"]


_current_result: ContextVar[CheckResult | None] = ContextVar("demur_ruling", default=None)


def current_check_result() -> CheckResult | None:
    """Return the check result that allowed the running guarded function or block."""
    return _current_result.get()


# The keyword-only parameter that demur fills in.
CONSTRAINTS = "constraints"
_RECEIVERS = ("self", "cls")

# The arguments of one call, by the names of the parameters.
Arguments = Mapping[str, Any]


class FunctionParameters(NamedTuple):
    """The parameters as callers see them, without `constraints`."""

    signature: inspect.Signature
    takes_constraints: bool
    receiver: str | None
    extra_keywords: str | None

    @classmethod
    def from_function(cls, function: Callable[..., Any]) -> Self:
        """Return the parameters of a function.

        Raises:
            InputTypeError: The function has no signature.
        """
        try:
            signature = inspect.signature(function)
        except ValueError as error:
            problem = "the function has no signature"
            raise InputTypeError(problem, help="wrap it in a Python function") from error
        every = tuple(signature.parameters.values())
        shown = [p for p in every if p.name != CONSTRAINTS or p.kind is not p.KEYWORD_ONLY]
        owned = shown and shown[0].name in _RECEIVERS and _is_in_class(function)
        owner = shown[0].name if owned else None
        rest = next((p.name for p in shown if p.kind is p.VAR_KEYWORD), None)
        return cls(signature.replace(parameters=shown), len(shown) < len(every), owner, rest)

    def bind_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return all arguments of a call, defaults included.

        Raises:
            TypeError: The function cannot be called like that.
        """
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    def visible_arguments(self, bound: Arguments) -> dict[str, Any]:
        """Return the arguments to check: without `self`, and with `**kwargs` by their own names."""
        shown = {name: value for name, value in bound.items() if name != self.receiver}
        more = {} if self.extra_keywords is None else shown.pop(self.extra_keywords)
        # A keyword must not hide a positional argument of the same name.
        if not shown.keys().isdisjoint(more):
            more = {f"**{self.extra_keywords}": more}
        return {**shown, **more}


def _is_in_class(function: Callable[..., Any]) -> bool:
    place = str(getattr(function, "__qualname__", "")).rpartition(".")[0]
    return bool(place) and not place.endswith("<locals>")


_FRAMEWORK = "python"
_SURFACES = (*(Surface.TOOL_CALL, Surface.TOOL_LOOP, Surface.TOOL_RESULT, Surface.CODE_EXECUTION),)

GrantSource = Iterable[Grant] | Callable[[Arguments], Iterable[Grant]]
NameSource = str | Callable[[Arguments], str | None]
RequestSource = Callable[[Arguments], Mapping[str, Any]]
SubjectSource = Mapping[str, Any] | Callable[[Arguments], Mapping[str, Any] | None]

# An enforcer holds its gate, so a weak dictionary could not keep it; histories hold no gate.
_histories: WeakKeyDictionary[Gate, LocalCallHistories] = WeakKeyDictionary()
_lock = Lock()


class CheckKeywords(TypedDict):
    """Keyword arguments of the checks of a call and of its result."""

    grants: tuple[Grant, ...]
    accepted: tuple[str, ...]
    describe: DescribeCall | None


class GuardedCall(NamedTuple):
    """One call, prepared for the enforcer."""

    enforcer: Enforcer
    action: str
    arguments: Arguments
    context: CallContext
    keywords: CheckKeywords

    def check(self) -> CheckResult:
        """Check the call."""
        return self.enforcer.check_tool_call(
            self.action, self.arguments, self.context, **self.keywords
        )

    async def acheck(self) -> CheckResult:
        """Check the call without blocking the event loop."""
        return await self.enforcer.acheck_tool_call(
            self.action, self.arguments, self.context, **self.keywords
        )

    def check_result(self, value: Any) -> CheckResult:
        """Check the result of the call."""
        return self.enforcer.check_tool_result(
            self.action, value, self.context, arguments=self.arguments, **self.keywords
        )

    async def acheck_result(self, value: Any) -> CheckResult:
        """Check the result of the call without blocking the event loop."""
        return await self.enforcer.acheck_tool_result(
            self.action, value, self.context, arguments=self.arguments, **self.keywords
        )


class CallSettings(NamedTuple):
    """The options of `guarded` and `guarding`; functions among them get the call's arguments."""

    enforcer: Enforcer
    request: RequestSource | None
    subject: Any
    tenant: Any
    run: Any
    grants: Any
    accepted: tuple[str, ...]

    @classmethod
    def from_options(
        cls,
        enforcer: Enforcer | Gate,
        request: RequestSource | None,
        accepted: Iterable[str],
        grants: GrantSource,
        **sources: Any,
    ) -> Self:
        """Return the options, validated as far as possible before a call.

        Raises:
            InputTypeError: `enforcer` is neither an enforcer nor a gate, or `accepted` is a text.
        """
        if isinstance(accepted, str):
            raise InputTypeError.wrong_type("`accepted`", "a list of constraints", accepted)
        return cls(
            enforcer=_open_enforcer(enforcer)
            if isinstance(enforcer, Gate)
            else Enforcer.from_gate(enforcer),
            request=request,
            accepted=tuple(accepted),
            grants=grants if callable(grants) else tuple(grants),
            **sources,
        )

    def build_call(self, action: Any, bound: Arguments, visible: Arguments) -> GuardedCall:
        """Return a call with all its `bound` arguments, of which the enforcer sees `visible`."""
        told = _SettingResolver(bound)
        name = told(action, "")
        grants = told(self._list_grants, ())
        subject, tenant, run = told(self.subject), told(self.tenant), told(self.run)
        at = CallContext(framework=_FRAMEWORK, run=run, subject=subject, tenant=tenant)
        describe = (
            self._build_describe(bound) if told.error is None else _failing_describe(told.error)
        )
        beside = CheckKeywords(grants=grants, accepted=self.accepted, describe=describe)
        return GuardedCall(self.enforcer, name, visible, at, beside)

    def _list_grants(self, bound: Arguments) -> tuple[Grant, ...]:
        return tuple(self.grants(bound) if callable(self.grants) else self.grants)

    def _build_describe(self, bound: Arguments) -> DescribeCall | None:
        if self.request is None:
            return None
        request = self.request

        # Cached: the result is checked with the same request as the call.
        @cache
        def known() -> Mapping[str, Any]:
            return request(bound)

        def describe(name: str, facts: Arguments) -> Mapping[str, Any]:
            usual, more = describe_call(name, facts), known()
            parts = {part: {**usual[part], **more.get(part, {})} for part in usual}
            return {**more, **parts, "action": {**parts["action"], "type": name}}

        return describe


class _SettingResolver:
    """Resolves options that are functions; keeps the first error, so that the call is refused."""

    def __init__(self, bound: Arguments) -> None:
        self._bound = bound
        self.error: Exception | None = None

    def __call__(self, setting: Any, default: Any = None) -> Any:
        if not callable(setting):
            return setting
        try:
            return setting(self._bound)
        except Exception as error:  # noqa: BLE001 - the enforcer refuses the call for it
            self.error = self.error or error
            return default


def _failing_describe(error: Exception) -> DescribeCall:
    """Return a `describe` that raises: the enforcer then refuses the call and records that."""

    def describe(_name: str, _facts: Arguments) -> Mapping[str, Any]:
        raise error

    return describe


def _open_enforcer(gate: Gate) -> Enforcer:
    with _lock:
        histories = _histories.setdefault(gate, LocalCallHistories())
    return Enforcer(gate, pipeline=_shared_pipeline(), histories=histories)


@cache
def _shared_pipeline() -> GuardPipeline:
    return standard_pipeline(*_SURFACES)


class guarding:  # noqa: N801 - named like the functions of `contextlib`
    """A block that runs only if its action is allowed: `with guarding(...) as result:`.

    Entering the block runs the check: it returns the check result or raises `Refused`.
    `async with` awaits the check. The options are those of `guarded`; functions among them get
    `arguments`. A block can be entered once.
    """

    def __init__(
        self,
        enforcer: Enforcer | Gate,
        action: str,
        arguments: Arguments | None = None,
        *,
        request: RequestSource | None = None,
        subject: SubjectSource | None = None,
        tenant: NameSource | None = None,
        run: NameSource | None = None,
        grants: GrantSource = (),
        accepted: Iterable[str] = (),
    ) -> None:
        told = {"subject": subject, "tenant": tenant, "run": run}
        given = {} if arguments is None else dict(arguments)
        asking = CallSettings.from_options(enforcer, request, accepted, grants, **told)
        self._call: GuardedCall | None = asking.build_call(action, given, given)
        self._leave: Callable[[], None] | None = None

    def __enter__(self) -> CheckResult:
        return self._enter_block(self._take_call().check())

    async def __aenter__(self) -> CheckResult:
        return self._enter_block(await self._take_call().acheck())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._leave is not None
        # A generator may be closed in another context than the one that started it.
        with suppress(ValueError):
            self._leave()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def _take_call(self) -> GuardedCall:
        asked, self._call = self._call, None
        if asked is None:
            raise InputError("a `guarding` block can be entered once", help="create a new one")
        return asked

    def _enter_block(self, result: CheckResult) -> CheckResult:
        self._leave = partial(_current_result.reset, _current_result.set(result.raise_if_refused()))
        return result


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
