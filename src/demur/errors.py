"""One exception tree: every error has a place, a problem and help.

The parts stay separate (`where`, `problem`, `help`), so that the command line, the service and a
log can each render them in their own way.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self


def one_line(text: str) -> str:
    """Return `text` with everything that is not printable escaped.

    Messages quote user input; a quoted line break or terminal sequence stays visible.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def error_reason(error: BaseException) -> str:
    """Return why an operation failed, in lower case and without the number of an `OSError`."""
    return str(getattr(error, "strerror", None) or error).lower()


def shorten(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, with an ellipsis if it was cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


class Problem(NamedTuple):
    """One problem: its place, its description, and help."""

    where: str | None
    problem: str
    help: str | None = None

    def __str__(self) -> str:
        text = one_line(f"{self.where}: {self.problem}" if self.where else self.problem)
        return f"{text}\n  help: {one_line(self.help)}" if self.help else text


class DemurError(Exception):
    """The base of all errors of demur; carries one problem or several."""

    def __init__(self, problem: str, *, where: str | None = None, help: str | None = None) -> None:  # noqa: A002 - the attribute users read is `help`
        self.problems: tuple[Problem, ...] = (Problem(where, problem, help),)
        super().__init__(problem)

    @property
    def where(self) -> str | None:
        """The place of the first problem."""
        return self.problems[0].where

    @property
    def problem(self) -> str:
        """The description of the first problem."""
        return self.problems[0].problem

    @property
    def help(self) -> str | None:
        """The help for the first problem."""
        return self.problems[0].help

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class InputError(DemurError, ValueError):
    """A value of the right type that cannot be used."""


class InputTypeError(DemurError, TypeError):
    """A value of the wrong type."""

    @classmethod
    def wrong_type(
        cls,
        name: str,
        expected: str,
        value: object,
        help: str | None = None,  # noqa: A002 - the name of the attribute
    ) -> "InputTypeError":
        """Return the error for an argument of the wrong type."""
        return cls(f"{name} must be {expected}, not `{type(value).__name__}`", help=help)


class UnknownCodeError(DemurError, LookupError):
    """A reason code that no loaded registry holds."""


class ManyProblemsError(DemurError, ValueError):
    """A file that cannot be used; `problems` holds all of its problems."""

    @classmethod
    def from_problems(cls, problems: Sequence[Problem]) -> Self:
        """Return one error with all `problems`, in order."""
        error = cls(problems[0].problem)
        error.problems = tuple(problems)
        return error


class RegistryError(ManyProblemsError):
    """A registry that breaks its rules."""


class PolicyError(ManyProblemsError):
    """A policy that cannot be used."""


class InconsistentError(DemurError, ValueError):
    """A verdict, class and codes that contradict each other."""


class GrantError(DemurError, ValueError):
    """A grant or key that cannot be read or made."""


class MissingExtraError(DemurError, ImportError):
    """A feature needs an optional dependency that is not installed."""
