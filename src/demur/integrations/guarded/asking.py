"""A call of a guarded function or block, prepared for the enforcer."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from threading import Lock
from typing import Any, NamedTuple, Self, TypedDict
from weakref import WeakKeyDictionary

from demur.codes.vocabulary import Surface
from demur.enforce.described import Describe, describe_call
from demur.enforce.enforcer import Enforcer, Occasion
from demur.enforce.histories import LocalHistories
from demur.enforce.ruling import Ruling
from demur.errors import InputTypeError
from demur.gate.gate import Gate
from demur.gate.pipeline import Pipeline
from demur.gate.standard import standard_pipeline
from demur.integrations.guarded.parameters import Arguments
from demur.model.grant import Grant

__all__ = ["Asked", "Asking", "Grants", "Name", "Request", "Subject"]

_FRAMEWORK = "python"
_SURFACES = (*(Surface.TOOL_CALL, Surface.TOOL_LOOP, Surface.TOOL_RESULT, Surface.CODE_EXECUTION),)

Grants = Iterable[Grant] | Callable[[Arguments], Iterable[Grant]]
Name = str | Callable[[Arguments], str | None]
Request = Callable[[Arguments], Mapping[str, Any]]
Subject = Mapping[str, Any] | Callable[[Arguments], Mapping[str, Any] | None]

# An enforcer holds its gate, so a weak dictionary could not keep it; histories hold no gate.
_histories: WeakKeyDictionary[Gate, LocalHistories] = WeakKeyDictionary()
_lock = Lock()


class Beside(TypedDict):
    """Keyword arguments of the checks of a call and of its result."""

    grants: tuple[Grant, ...]
    accepted: tuple[str, ...]
    describe: Describe | None


class Asked(NamedTuple):
    """One call, prepared for the enforcer."""

    enforcer: Enforcer
    action: str
    facts: Arguments
    at: Occasion
    beside: Beside

    def rule(self) -> Ruling:
        """Check the call."""
        return self.enforcer.tool_call(self.action, self.facts, self.at, **self.beside)

    async def arule(self) -> Ruling:
        """Check the call without blocking the event loop."""
        return await self.enforcer.atool_call(self.action, self.facts, self.at, **self.beside)

    def rule_result(self, value: Any) -> Ruling:
        """Check the result of the call."""
        return self.enforcer.tool_result(
            self.action, value, self.at, arguments=self.facts, **self.beside
        )

    async def arule_result(self, value: Any) -> Ruling:
        """Check the result of the call without blocking the event loop."""
        return await self.enforcer.atool_result(
            self.action, value, self.at, arguments=self.facts, **self.beside
        )


class Asking(NamedTuple):
    """The options of `guarded` and `guarding`; functions among them get the call's arguments."""

    enforcer: Enforcer
    request: Request | None
    subject: Any
    tenant: Any
    run: Any
    grants: Any
    accepted: tuple[str, ...]

    @classmethod
    def of(
        cls,
        by: Enforcer | Gate,
        request: Request | None,
        accepted: Iterable[str],
        grants: Grants,
        **told: Any,
    ) -> Self:
        """Return the options, validated as far as possible before a call.

        Raises:
            InputTypeError: `enforcer` is neither an enforcer nor a gate, or `accepted` is a text.
        """
        if isinstance(accepted, str):
            raise InputTypeError.expected("`accepted`", "a list of constraints", accepted)
        return cls(
            enforcer=_enforcer(by) if isinstance(by, Gate) else Enforcer.of(by),
            request=request,
            accepted=tuple(accepted),
            grants=grants if callable(grants) else tuple(grants),
            **told,
        )

    def about(self, action: Any, given: Arguments, shown: Arguments) -> Asked:
        """Return a call with all its `bound` arguments, of which the enforcer sees `visible`."""
        told = _Told(given)
        name = told(action, "")
        grants = told(self._granted, ())
        subject, tenant, run = told(self.subject), told(self.tenant), told(self.run)
        at = Occasion(framework=_FRAMEWORK, run=run, subject=subject, tenant=tenant)
        describe = self._describe(given) if told.error is None else _failing(told.error)
        beside = Beside(grants=grants, accepted=self.accepted, describe=describe)
        return Asked(self.enforcer, name, shown, at, beside)

    def _granted(self, given: Arguments) -> tuple[Grant, ...]:
        return tuple(self.grants(given) if callable(self.grants) else self.grants)

    def _describe(self, given: Arguments) -> Describe | None:
        if self.request is None:
            return None
        request = self.request

        # Cached: the result is checked with the same request as the call.
        @cache
        def known() -> Mapping[str, Any]:
            return request(given)

        def describe(name: str, facts: Arguments) -> Mapping[str, Any]:
            usual, more = describe_call(name, facts), known()
            parts = {part: {**usual[part], **more.get(part, {})} for part in usual}
            return {**more, **parts, "action": {**parts["action"], "type": name}}

        return describe


class _Told:
    """Resolves options that are functions; keeps the first error, so that the call is refused."""

    def __init__(self, given: Arguments) -> None:
        self._given = given
        self.error: Exception | None = None

    def __call__(self, setting: Any, otherwise: Any = None) -> Any:
        if not callable(setting):
            return setting
        try:
            return setting(self._given)
        except Exception as error:  # noqa: BLE001 - the enforcer refuses the call for it
            self.error = self.error or error
            return otherwise


def _failing(error: Exception) -> Describe:
    """Return a `describe` that raises: the enforcer then refuses the call and records that."""

    def describe(_name: str, _facts: Arguments) -> Mapping[str, Any]:
        raise error

    return describe


def _enforcer(gate: Gate) -> Enforcer:
    with _lock:
        histories = _histories.setdefault(gate, LocalHistories())
    return Enforcer(gate, pipeline=_pipeline(), histories=histories)


@cache
def _pipeline() -> Pipeline:
    return standard_pipeline(*_SURFACES)
