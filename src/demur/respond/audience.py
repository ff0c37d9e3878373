"""Who reads a refusal. Each audience sees what it can act on, and nothing beyond."""

from enum import StrEnum

from demur.errors import InputError
from demur.source.suggest import did_you_mean

__all__ = ["Audience", "parse_audience"]


class Audience(StrEnum):
    """`end_user`: words. `agent`: words and what a program acts on. `operator`: everything."""

    END_USER = "end_user"
    AGENT = "agent"
    OPERATOR = "operator"


def parse_audience(name: str) -> Audience:
    """Return the audience called `name`.

    Raises:
        InputError: There is no such audience.
    """
    try:
        return Audience(name)
    except ValueError:
        hint = did_you_mean(str(name), Audience) or f"one of {', '.join(Audience)}"
        raise InputError(f"unknown audience `{name}`", help=hint) from None
