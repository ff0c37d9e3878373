"""A block that runs only if its action is allowed."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType

from demur.enforce.enforcer import Enforcer
from demur.enforce.ruling import Ruling
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.integrations.guarded.asking import Asked, Asking, Grants, Name, Request, Subject
from demur.integrations.guarded.current import current
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
        by: Enforcer | Gate,
        action: str,
        arguments: Arguments | None = None,
        *,
        request: Request | None = None,
        subject: Subject | None = None,
        tenant: Name | None = None,
        run: Name | None = None,
        grants: Grants = (),
        accepted: Iterable[str] = (),
    ) -> None:
        told = {"subject": subject, "tenant": tenant, "run": run}
        given = {} if arguments is None else dict(arguments)
        asking = Asking.of(by, request, accepted, grants, **told)
        self._asked: Asked | None = asking.about(action, given, given)
        self._leave: Callable[[], None] | None = None

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

    def _once(self) -> Asked:
        asked, self._asked = self._asked, None
        if asked is None:
            raise InputError("a `guarding` block can be entered once", help="create a new one")
        return asked

    def _entered(self, ruling: Ruling) -> Ruling:
        self._leave = partial(current.reset, current.set(ruling.or_raise()))
        return ruling
