"""The contract of a guard, checks for it, and guards that installed packages add.

A guard is a module or object that inspects one surface and yields findings; it never decides.
The pipeline checks every guard against the contract while it runs, and `demur.testing` does so
before it is shipped. Packages add guards by entry points of the group `demur.guards`: each
names a module or object with `SURFACE`, `CODES` and `check`, and, if its `check` needs one, a
`CONFIG`.
"""

import inspect
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from demur.canonical import canonicalise
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Effect, Surface
from demur.errors import InputError, ManyProblemsError, Problem
from demur.model.finding import Action, Finding, Span

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


MAX_DETAIL_LENGTH = 120
MAX_EVIDENCE_BYTES = 65_536


def guard_problems(guard: object, registry: Registry) -> Iterator[str]:
    """Yield what breaks the contract of a guard in `guard`."""
    surface = getattr(guard, "SURFACE", None)
    if surface is None:
        yield "it has no `SURFACE`"
    elif surface not in list(Surface):
        yield f"`SURFACE` is `{str(surface)[:40]}`, which is no surface"
    codes = getattr(guard, "CODES", None)
    if not isinstance(codes, tuple) or not codes:
        yield "`CODES` must be a tuple of reason codes"
    else:
        yield from filter(None, (_code_problem(code, registry) for code in codes))
    check = getattr(guard, "check", None)
    if not callable(check):
        yield "it has no function `check(event, config)`"
    elif not _takes_two(check):
        yield "`check` must take an event and a config"


def _code_problem(code: object, registry: Registry) -> str | None:
    entry = registry.get(code) if isinstance(code, str) else None
    if entry is None:
        return f"`{str(code)[:80]}` in `CODES` is not registered"
    if entry.effect is not Effect.REFUSE:
        return f"`{entry.code}` in `CODES` refuses nothing"
    return None


def _takes_two(check: Any) -> bool:
    try:
        inspect.signature(check).bind(None, None)
    except (TypeError, ValueError) as error:
        # A function in C may have no signature.
        return isinstance(error, ValueError)
    return True


def finding_problem(
    finding: object, *, surface: str, codes: tuple[str, ...], text: str | None, registry: Registry
) -> str | None:
    """Return what is wrong with a finding, or None if a guard of these codes may yield it.

    `text` is what spans point into, where the event has one text.
    """
    if not isinstance(finding, Finding):
        return f"a `{type(finding).__name__}` is no finding"
    found = (
        _finding_code_problem(finding.code, codes, registry),
        _finding_field_problem(finding, surface),
        _span_problem(finding.span, text),
        _evidence_problem(finding),
    )
    return next(filter(None, found), None)


def _finding_code_problem(code: object, codes: tuple[str, ...], registry: Registry) -> str | None:
    if not isinstance(code, str) or code not in registry:
        return f"the code `{str(code)[:80]}` is not registered"
    return None if code in codes else f"the code `{code}` is not one of its `CODES`"


def _finding_field_problem(finding: Finding, surface: str) -> str | None:
    detail: object = finding.detail
    if finding.surface != surface:
        return f"the surface is `{str(finding.surface)[:40]}`, not `{surface}`"
    if finding.action not in list(Action):
        return f"the action is `{str(finding.action)[:40]}`"
    if not isinstance(detail, str) or len(detail) > MAX_DETAIL_LENGTH:
        return f"the detail must be a text of at most {MAX_DETAIL_LENGTH} characters"
    return None


def _span_problem(span: object, text: str | None) -> str | None:
    if span is not None and not isinstance(span, Span):
        return f"a `{type(span).__name__}` is no span"
    if span is not None and text is not None and span.end > len(text):
        return f"the span ends at {span.end}, and the text at {len(text)}"
    return None


def _evidence_problem(finding: Finding) -> str | None:
    try:
        plain = canonicalise(finding.evidence)
    except InputError as error:
        return f"the evidence is not plain JSON: {error.problem}"
    if not isinstance(plain.value, dict):
        return "the evidence must be a mapping"
    too_much = len(plain.raw) > MAX_EVIDENCE_BYTES
    return f"the evidence takes more than {MAX_EVIDENCE_BYTES} bytes" if too_much else None


def event_text(event: object) -> str | None:
    """Return the text that spans of an event's findings point into, where there is one."""
    if isinstance(event, str):
        return event
    text = getattr(event, "text", None)
    return text if isinstance(text, str) else None


class Guard(Protocol):
    """The contract of a guard, built in or from an entry point of the group `demur.guards`.

    `check` is pure: the same event and config give the same findings, in the order of their
    spans. It raises `InputError` for an event it cannot take, and nothing else. Each
    finding has one of `CODES`, the guard's surface, and a span within the event's text
    where there is one; its detail is short, and holds no secret.
    """

    # Read-only properties, so that a module's tuple of `ReasonCode` fits the type.
    @property
    def SURFACE(self) -> Surface:  # noqa: N802 - a module's constant
        """The surface that it inspects."""

    @property
    def CODES(self) -> tuple[str, ...]:  # noqa: N802 - a module's constant
        """The codes of its findings."""

    def check(self, event: Any, config: Any) -> Iterator[Finding]:
        """Yield the findings in `event`."""


ENTRY_POINT_GROUP = "demur.guards"
_HELP = "it must name a module or object with SURFACE, CODES and check(event, config)"


class GuardError(ManyProblemsError):
    """A guard that breaks its contract."""


class InstalledGuard(NamedTuple):
    """A guard that a package installed, or what is wrong with it."""

    name: str
    package: str
    guard: Guard | None
    problems: tuple[Problem, ...] = ()

    @property
    def config(self) -> Any:
        """The settings that its author gives it."""
        return getattr(self.guard, "CONFIG", None)


@cache
def find_installed() -> tuple[InstalledGuard, ...]:
    """Return every guard that installed packages name, including unusable ones."""
    from importlib import metadata  # noqa: PLC0415 - slower to import than all of demur.guards

    points = metadata.entry_points(group=ENTRY_POINT_GROUP)
    return tuple(_load_guard(point) for point in sorted(points))


def installed_guards(surface: Surface | str) -> tuple[InstalledGuard, ...]:
    """Return the installed guards of a surface.

    Raises:
        GuardError: An installed guard is unusable. Skipping it silently would leave its
            user unprotected.
    """
    found = find_installed()
    problems = [problem for one in found for problem in one.problems]
    if problems:
        raise GuardError.from_problems(problems)
    return tuple(one for one in found if surface == cast("Guard", one.guard).SURFACE)


def _load_guard(point: "EntryPoint") -> InstalledGuard:
    package = point.dist.name if point.dist is not None else "an unnamed package"
    where = f"{package}: entry point `{point.name} = {point.value}`"
    try:
        guard = point.load()
    # A package's import may raise anything; the operator needs to know which package it was.
    except Exception as error:  # noqa: BLE001 - said with the package's name, and refused later
        problem = f"the guard cannot be loaded: {type(error).__name__}: {error}"
        return InstalledGuard(point.name, package, None, (Problem(where, problem, _HELP),))
    found = [Problem(where, text, _HELP) for text in guard_problems(guard, default_registry())]
    return InstalledGuard(point.name, package, None if found else guard, tuple(found))
