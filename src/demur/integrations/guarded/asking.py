"""A call of a guarded function or block, prepared for the enforcer."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from threading import Lock
from typing import Any, NamedTuple, Self, TypedDict
from weakref import WeakKeyDictionary

from demur.codes.vocabulary import Surface
from demur.enforce.described import DescribeCall, describe_call
from demur.enforce.enforcer import Enforcer, CallContext
from demur.enforce.histories import LocalCallHistories
from demur.enforce.ruling import CheckResult
from demur.errors import InputTypeError
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline
from demur.gate.standard import standard_pipeline
from demur.integrations.guarded.parameters import Arguments
from demur.model.grant import Grant

__all__ = [
    "GuardedCall",
    "CallSettings",
    "GrantSource",
    "NameSource",
    "RequestSource",
    "SubjectSource",
]

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
