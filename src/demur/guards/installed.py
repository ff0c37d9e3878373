"""Guards that installed packages add, by entry points of the group `demur.guards`.

An entry point names a module or an object with `SURFACE`, `CODES` and `check`, and, if its
`check` needs one, a `CONFIG` to be given. It is loaded when first asked for and held to the
contract; what is wrong with it is said with the package's name.
"""

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from demur.codes.default import default_registry
from demur.codes.vocabulary import Surface
from demur.errors import ManyProblemsError, Problem
from demur.guards.contract import guard_problems
from demur.guards.guard import Guard

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "ENTRY_POINT_GROUP",
    "GuardError",
    "InstalledGuard",
    "find_installed",
    "installed_guards",
]

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
        GuardError: An installed guard cannot be used. Skipping it silently would leave its
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
