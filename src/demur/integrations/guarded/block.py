"""A block that runs only if its action is allowed."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType

from demur.enforce.enforcer import Enforcer
from demur.enforce.ruling import CheckResult
from demur.errors import InputError
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
from demur.integrations.guarded.parameters import Arguments

__all__ = ["guarding"]


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
