"""Plain Python: `@guarded` functions and `with guarding(...)` blocks.

The enforcer checks the call with its arguments before the body runs. Constraints of an allowed
call reach the function as its keyword-only parameter `constraints`, or by
`current_check_result()`.
"""

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar, Token
from functools import cache
from threading import Lock
from typing import Any, Literal, NamedTuple, Self, TypedDict, TypeVar, Unpack, cast
from weakref import WeakKeyDictionary

from demur.codes.vocabulary import Surface
from demur.enforce.context import CallContext, Steps, adrive, drive
from demur.enforce.describe import DescribeCall, describe_call, to_json_value
from demur.enforce.enforcer import Enforcer
from demur.enforce.history import LocalCallHistories
from demur.enforce.result import CheckResult, Refused
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline, standard_pipeline
from demur.integrations._kit import AdapterOptions, adapt_enforcer, is_changed_fully
from demur.model.grant import Grant

__all__ = ["CallOptions", "current_check_result", "guarded", "guarding"]

_FRAMEWORK = "python"
_SURFACES = (Surface.TOOL_CALL, Surface.TOOL_LOOP, Surface.TOOL_RESULT, Surface.CODE_EXECUTION)
# The keyword-only parameter that demur fills in.
_CONSTRAINTS = "constraints"
_CARRIED = frozenset({Surface.TOOL_CALL, Surface.TOOL_RESULT})
_RECEIVERS = ("self", "cls")

# The arguments of one call, by the names of the parameters.
Arguments = Mapping[str, Any]
OnRefusal = Literal["raise", "return"] | Callable[[CheckResult], Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])

_current_result: ContextVar[CheckResult | None] = ContextVar("demur_result", default=None)
# Keep histories, not enforcers: an enforcer refers to its gate, and a value that refers to its
# weak key is never freed.
_histories: WeakKeyDictionary[Gate, LocalCallHistories] = WeakKeyDictionary()
_lock = Lock()


def current_check_result() -> CheckResult | None:
    """Return the check result that allowed the running guarded function or block."""
    return _current_result.get()


class CallOptions(AdapterOptions, total=False):
    """Options of `guarded` and `guarding`; functions among them get the call's arguments.

    `request` returns parts of the request that override the arguments; it replaces the
    enforcer's `describe`. `subject` (`id`, `type`, `roles`) is the caller, `run` the agent's
    run, which loop detection uses. `grants` are for this call only. `accepted` lists constraints
    that the code honours. `on_finding`, `mode` and `tools` are those of all adapters; a function
    gets changed arguments, and a block changes nothing.
    """

    request: Callable[[Arguments], Mapping[str, Any]] | None
    subject: Mapping[str, Any] | Callable[[Arguments], Mapping[str, Any] | None] | None
    tenant: str | Callable[[Arguments], str | None] | None
    run: str | Callable[[Arguments], str | None] | None
    grants: Iterable[Grant] | Callable[[Arguments], Iterable[Grant]]
    accepted: Iterable[str]


def guarded(
    enforcer: Enforcer | Gate,
    *,
    action: str | Callable[[Arguments], str] | None = None,
    currency: str | None = None,
    check_return: bool | Callable[[Any], Any] = False,
    on_refusal: OnRefusal = "raise",
    **options: Unpack[CallOptions],
) -> Callable[[_Function], _Function]:
    """Return a decorator: the function, sync or async, runs only if its call is allowed.

    `action` names the action; the default is the function's name. The request consists of the
    call and its arguments. An argument `amount` is the amount of the action, in the currency of
    an argument `currency` or of the option. With `check_return`, the enforcer also checks the
    returned value, or what a function `check_return` makes of it. `options` are those of
    `CallOptions`: `request`, `subject`, `tenant`, `run`, `grants` and `accepted`. Options that
    are functions get the arguments by name, `self` included; if one raises, the call is refused.

    A refused call raises `Refused`, returns the check result, or returns the value of
    `on_refusal(result)`, awaited if necessary.

    Raises:
        InputError: The action has no name, or an option is invalid.
        InputTypeError: The decorated object is not a function that can be guarded.
    """
    if on_refusal not in ("raise", "return") and not callable(on_refusal):
        help_text = "`raise`, `return`, or a function of the check result"
        raise InputError("unknown value", where="on_refusal", help=help_text)
    settings = _CallSettings.from_options(enforcer, carried=_CARRIED, **options)
    defaults = {} if currency is None else {"currency": currency}

    def decorate(function: _Function) -> _Function:
        _check_function(function, on_refusal)
        name = _function_name(function) if action is None else action
        parameters = FunctionParameters.from_function(function)
        guard = _FunctionGuard(
            function, parameters, settings, name, defaults, check_return, on_refusal
        )
        return cast("_Function", guard.wrap())

    return decorate


class guarding:  # noqa: N801 - named like the functions of `contextlib`
    """A block that runs only if its action is allowed: `with guarding(...) as result:`.

    Entering the block runs the check: it returns the check result or raises `Refused`.
    `async with` awaits the check. `options` are those of `CallOptions`; functions among them get
    `arguments`. A block can be entered once.
    """

    def __init__(
        self,
        enforcer: Enforcer | Gate,
        action: str,
        arguments: Arguments | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        values = {} if arguments is None else dict(arguments)
        settings = _CallSettings.from_options(enforcer, carried=(), **options)
        self._call: _PreparedCall | None = settings.build_call(action, values, values)
        self._token: Token[CheckResult | None] | None = None

    def __enter__(self) -> CheckResult:
        return self._enter(drive(self._check()))

    async def __aenter__(self) -> CheckResult:
        return self._enter(await adrive(self._check()))

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        # A generator may be closed in another context than the one that started it.
        with suppress(ValueError):
            _current_result.reset(self._token)

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    def _check(self) -> Steps[CheckResult]:
        call, self._call = self._call, None
        if call is None:
            raise InputError("a `guarding` block can be entered once", help="create a new one")
        return call.check()

    def _enter(self, result: CheckResult) -> CheckResult:
        self._token = _current_result.set(result.raise_if_refused())
        return result


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
        visible = [p for p in every if p.name != _CONSTRAINTS or p.kind is not p.KEYWORD_ONLY]
        scope = str(getattr(function, "__qualname__", "")).rpartition(".")[0]
        is_method = bool(scope) and not scope.endswith("<locals>")
        has_receiver = is_method and visible and visible[0].name in _RECEIVERS
        keywords = next((p.name for p in visible if p.kind is p.VAR_KEYWORD), None)
        return cls(
            signature.replace(parameters=visible),
            len(visible) < len(every),
            visible[0].name if has_receiver else None,
            keywords,
        )

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
        visible = {name: value for name, value in bound.items() if name != self.receiver}
        more = {} if self.extra_keywords is None else visible.pop(self.extra_keywords)
        # A keyword must not hide a positional argument of the same name.
        if not visible.keys().isdisjoint(more):
            more = {f"**{self.extra_keywords}": more}
        return {**visible, **more}


class _CheckKeywords(TypedDict):
    """Keyword arguments of the checks of a call and of its result."""

    grants: tuple[Grant, ...]
    accepted: tuple[str, ...]
    describe: DescribeCall | None


class _PreparedCall(NamedTuple):
    """One call, prepared for the enforcer."""

    enforcer: Enforcer
    action: str
    arguments: Arguments
    context: CallContext
    keywords: _CheckKeywords

    def check(self) -> Steps[CheckResult]:
        """Check the call."""
        return self.enforcer.tool_call_steps(
            self.action, self.arguments, self.context, **self.keywords
        )

    def without_changes(self) -> Self:
        """Return the call as it is checked where nothing can be changed."""
        return self._replace(enforcer=self.enforcer.refuse_changes())

    def check_return_value(self, value: Any) -> Steps[CheckResult]:
        """Check the result of the call."""
        return self.enforcer.tool_result_steps(
            self.action, value, self.context, arguments=self.arguments, **self.keywords
        )


class _CallSettings(NamedTuple):
    """Validated options."""

    enforcer: Enforcer
    request: Any = None
    subject: Any = None
    tenant: Any = None
    run: Any = None
    grants: Any = ()
    accepted: Iterable[str] = ()

    @classmethod
    def from_options(
        cls, enforcer: Enforcer | Gate, *, carried: Collection[Surface], **options: Any
    ) -> Self:
        """Return the options, validated as far as possible before a call.

        Raises:
            InputError: An option of all adapters cannot be used.
            InputTypeError: `enforcer` is neither an enforcer nor a gate, or `accepted` is a text.
        """
        if isinstance(enforcer, Gate):
            with _lock:
                histories = _histories.setdefault(enforcer, LocalCallHistories())
            enforcer = Enforcer(enforcer, pipeline=_function_pipeline(), histories=histories)
        shared: Any = {
            name: options.pop(name) for name in AdapterOptions.__annotations__ if name in options
        }
        settings = cls(adapt_enforcer(enforcer, carried=carried, **shared), **options)
        accepted, grants = settings.accepted, settings.grants
        if isinstance(accepted, str):
            raise InputTypeError.wrong_type("`accepted`", "a list of constraints", accepted)
        grants = grants if callable(grants) else tuple(grants)
        return settings._replace(accepted=tuple(accepted), grants=grants)

    def build_call(self, action: Any, bound: Arguments, visible: Arguments) -> _PreparedCall:
        """Return a call with all its `bound` arguments, of which the enforcer sees `visible`."""
        errors: list[Exception] = []

        def resolve(option: Any, default: Any = None) -> Any:
            try:
                return option(bound) if callable(option) else option
            except Exception as error:  # noqa: BLE001 - the enforcer refuses the call for it
                errors.append(error)
                return default

        name, grants = resolve(action, ""), resolve(self._list_grants, ())
        subject, tenant, run = map(resolve, (self.subject, self.tenant, self.run))
        context = CallContext(framework=_FRAMEWORK, run=run, subject=subject, tenant=tenant)
        describe = _failing_describe(errors[0]) if errors else self._build_describe(bound)
        keywords = _CheckKeywords(grants=grants, accepted=tuple(self.accepted), describe=describe)
        return _PreparedCall(self.enforcer, name, visible, context, keywords)

    def _list_grants(self, bound: Arguments) -> tuple[Grant, ...]:
        return tuple(self.grants(bound) if callable(self.grants) else self.grants)

    def _build_describe(self, bound: Arguments) -> DescribeCall | None:
        if self.request is None:
            return None
        # Cached: the result is checked with the same request as the call.
        read_parts = cache(lambda: self.request(bound))

        def describe(name: str, arguments: Arguments) -> Mapping[str, Any]:
            usual, more = describe_call(name, arguments), read_parts()
            parts = {part: {**usual[part], **more.get(part, {})} for part in usual}
            return {**more, **parts, "action": {**parts["action"], "type": name}}

        return describe


def _failing_describe(error: Exception) -> DescribeCall:
    """Return a `describe` that raises: the enforcer then refuses the call and records that."""

    def describe(_name: str, _arguments: Arguments) -> Mapping[str, Any]:
        raise error

    return describe


@cache
def _function_pipeline() -> GuardPipeline:
    return standard_pipeline(*_SURFACES)


class _FunctionGuard(NamedTuple):
    """A function with the checks before and after it."""

    function: Callable[..., Any]
    parameters: FunctionParameters
    settings: _CallSettings
    action: str | Callable[[Arguments], str]
    defaults: Arguments
    check_return: bool | Callable[[Any], Any]
    on_refusal: OnRefusal

    def wrap(self) -> Callable[..., Any]:
        """Return the function with its checks."""
        function = self.function
        call = self._make_async_call() if _is_async(function) else self._make_sync_call()
        wrapper: Any = functools.update_wrapper(call, function)
        # Frameworks read a tool's signature; they must not see the parameter that demur fills in.
        wrapper.__signature__ = self.parameters.signature
        hints = getattr(function, "__annotations__", {})
        if self.parameters.takes_constraints:
            wrapper.__annotations__ = {n: hint for n, hint in hints.items() if n != _CONSTRAINTS}
        return cast("Callable[..., Any]", wrapper)

    # Call the function outside of the generators: a `StopIteration` that is raised inside one
    # becomes a `RuntimeError`.

    def _make_sync_call(self) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            guarded_call, result, changed = drive(self._check_call(args, kwargs))
            # INVARIANT: a guarded function runs only if the check of its call allows it.
            if not result.allowed:
                return self._handle_refusal(result)
            token = _current_result.set(result)
            try:
                value = self.function(*changed[0], **changed[1], **self._extra_arguments(result))
            finally:
                _current_result.reset(token)
            after, value = drive(self._check_value(guarded_call, value))
            return value if after is None else self._handle_refusal(after)

        return call

    def _make_async_call(self) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            guarded_call, result, changed = await adrive(self._check_call(args, kwargs))
            if not result.allowed:
                return await self._ahandle_refusal(result)
            token = _current_result.set(result)
            try:
                value = await self.function(
                    *changed[0], **changed[1], **self._extra_arguments(result)
                )
            finally:
                _current_result.reset(token)
            after, value = await adrive(self._check_value(guarded_call, value))
            return value if after is None else await self._ahandle_refusal(after)

        return call

    def _build_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _PreparedCall:
        bound = self.parameters.bind_arguments(args, kwargs)
        visible = {**self.defaults, **self.parameters.visible_arguments(bound)}
        return self.settings.build_call(self.action, bound, visible)

    def _extra_arguments(self, result: CheckResult) -> dict[str, Any]:
        return {_CONSTRAINTS: result.constraints} if self.parameters.takes_constraints else {}

    def _check_call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Steps[tuple[_PreparedCall, CheckResult, tuple[Any, dict[str, Any]]]]:
        """Check a call; return it with its result and the arguments to call the function with."""
        call = self._build_call(args, kwargs)
        result = yield from call.check()
        if result.changes is None:
            return call, result, (args, kwargs)
        changed = result.apply_changes(args), result.apply_changes(kwargs)
        rest = self._build_call(*changed)
        if is_changed_fully(result, rest.arguments):
            return rest, result, changed
        return call, (yield from call.without_changes().check()), (args, kwargs)

    def _check_value(
        self, call: _PreparedCall, value: Any
    ) -> Steps[tuple[CheckResult | None, Any]]:
        """Check the returned value; None if it is allowed or not to be checked, and the value."""
        if not self.check_return:
            return None, value
        result = yield from call.check_return_value(self._read_value(value))
        changed = result.apply_changes(value)
        if result.changes is not None and not is_changed_fully(result, self._read_value(changed)):
            result = yield from call.without_changes().check_return_value(self._read_value(value))
        return (None, changed) if result.allowed else (result, value)

    def _read_value(self, value: Any) -> Any:
        readable = self.check_return(value) if callable(self.check_return) else value
        return to_json_value(readable, opaque=_reject_opaque)

    def _handle_refusal(self, result: CheckResult) -> Any:
        if callable(self.on_refusal):
            return self.on_refusal(result)
        if self.on_refusal == "return":
            return result
        raise Refused(result)

    async def _ahandle_refusal(self, result: CheckResult) -> Any:
        value = self._handle_refusal(result)
        return await value if inspect.isawaitable(value) else value


def _reject_opaque(value: Any) -> str:
    problem = f"a `{type(value).__name__}` cannot be checked"
    help_text = "pass a function as `check_return=` that returns a text or JSON"
    raise InputError(problem, where="check_return", help=help_text)


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
    call = getattr(function, "__call__", None)  # noqa: B004 - of a callable object
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
