"""A call of plain Python, ready to be decided: who decides, what is told, and for whom."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from threading import Lock
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.gate.described import Describe, describe_call
from demur.gate.enforcer import Enforcer, Occasion
from demur.gate.gate import Gate
from demur.gate.histories import LocalHistories
from demur.gate.pipeline import Pipeline
from demur.gate.ruling import Ruling
from demur.gate.standard import standard_pipeline
from demur.integrations.guarded_parameters import Arguments
from demur.model.grant import Grant

__all__ = ["Asked", "Asking", "Request"]

_FRAMEWORK = "python"
_SURFACES = (*(Surface.TOOL_CALL, Surface.TOOL_LOOP, Surface.TOOL_RESULT, Surface.CODE_EXECUTION),)
Request = Callable[[Arguments], Mapping[str, Any]]

# An enforcer holds its gate, so it cannot be kept beside it; the histories can.
_histories: WeakKeyDictionary[Gate, LocalHistories] = WeakKeyDictionary()
_lock = Lock()


class Asked(NamedTuple):
    """One call, ready to be decided."""

    enforcer: Enforcer
    action: str
    facts: Arguments
    at: Occasion
    grants: Iterable[Grant]
    accepts: tuple[str, ...]

    def rule(self) -> Ruling:
        """Return the ruling on the call."""
        return self.enforcer.tool_call(
            self.action, self.facts, self.at, grants=self.grants, accepted=self.accepts
        )

    async def arule(self) -> Ruling:
        """Return the ruling on the call; the event loop runs on meanwhile."""
        return await self.enforcer.atool_call(
            self.action, self.facts, self.at, grants=self.grants, accepted=self.accepts
        )

    def rule_result(self, value: Any) -> Ruling:
        """Return the ruling on what came of it."""
        return self.enforcer.tool_result(self.action, value, self.at, arguments=self.facts)

    async def arule_result(self, value: Any) -> Ruling:
        """Return the ruling on what came of it; the event loop runs on meanwhile."""
        return await self.enforcer.atool_result(self.action, value, self.at, arguments=self.facts)


class Asking(NamedTuple):
    """How calls are asked about; what is a function here is given the arguments."""

    by: Enforcer | Gate
    request: Request | None
    subject: Any
    tenant: Any
    run: Any
    grants: Any
    accepts: tuple[str, ...]

    @classmethod
    def of(
        cls,
        by: Enforcer | Gate,
        request: Request | None,
        accepts: Iterable[str],
        grants: Iterable[Grant] | Callable[[Arguments], Iterable[Grant]],
        **told: Any,
    ) -> Self:
        """Return how to ask `by`, checked as far as it can be now.

        Raises:
            InputError: An enforcer is given, which describes calls itself, and a request, too.
            InputTypeError: Nobody is given who decides.
        """
        if not isinstance(by, Enforcer | Gate):
            raise InputTypeError.expected("who decides", "a `Gate` or an `Enforcer`", by)
        if request is not None and isinstance(by, Enforcer):
            help_text = "pass `describe=` to the enforcer, or a gate instead of it"
            raise InputError("an enforcer describes calls itself", where="request", help=help_text)
        if isinstance(accepts, str):
            raise InputTypeError.expected("`accepts`", "a list of constraints", accepts)
        # A request has facts of its own each time, and so has the enforcer that knows them.
        who = by if isinstance(by, Enforcer) or request is not None else _enforcer(by)
        given = grants if callable(grants) else tuple(grants)
        return cls(by=who, request=request, accepts=tuple(accepts), grants=given, **told)

    def about(self, action: Any, given: Arguments, shown: Arguments) -> Asked:
        """Return the question on a call: what was `given`, of which `shown` is decided on."""
        at = Occasion(
            framework=_FRAMEWORK,
            run=_told(self.run, given),
            subject=_told(self.subject, given),
            tenant=_told(self.tenant, given),
        )
        return Asked(
            self.by if isinstance(self.by, Enforcer) else _enforcer(self.by, self._describe(given)),
            _told(action, given),
            shown,
            at,
            _told(self.grants, given),
            self.accepts,
        )

    def _describe(self, given: Arguments) -> Describe:
        def describe(name: str, facts: Arguments) -> Mapping[str, Any]:
            assert self.request is not None
            usual, more = describe_call(name, facts), self.request(given)
            parts = {part: {**usual[part], **more.get(part, {})} for part in usual}
            return {**more, **parts, "action": {**parts["action"], "type": name}}

        return describe


def _told(given: Any, arguments: Arguments) -> Any:
    return given(arguments) if callable(given) else given


def _enforcer(gate: Gate, describe: Describe = describe_call) -> Enforcer:
    with _lock:
        histories = _histories.setdefault(gate, LocalHistories())
    return Enforcer(gate, pipeline=_pipeline(), describe=describe, histories=histories)


@cache
def _pipeline() -> Pipeline:
    return standard_pipeline(*_SURFACES)
