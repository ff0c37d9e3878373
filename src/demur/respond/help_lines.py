"""Places that help, each as one line: given by the caller, seen as evidence, or the locale's."""

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["format_help_line", "choose_help_lines"]

_MAX_HELP_LINE = 200
_MAX_HELP_LINES = 8
# Markup is removed; addresses and numbers stay.
_MARKUP = str.maketrans(dict.fromkeys("[]<>`|\\{}", " "))


def format_help_line(resource: Any) -> str:
    """Return a help resource as one line; empty if it names none."""
    if isinstance(resource, Mapping):
        country = resource.get("country")
        place = f" ({country})" if country else ""
        resource = f"{resource.get('name', '')}{place}: {resource.get('contact', '')}"
    if not isinstance(resource, str):
        return ""
    text = "".join(c if c.isprintable() else " " for c in resource[: _MAX_HELP_LINE * 2])
    return " ".join(text.translate(_MARKUP).split())[:_MAX_HELP_LINE].strip(": ")


def choose_help_lines(named: Iterable[Any], usual: Iterable[Any]) -> tuple[str, ...]:
    """Return the lines that were named, each once, or else the usual ones."""
    found = dict.fromkeys(line for line in map(format_help_line, named) if line)
    return tuple(found)[:_MAX_HELP_LINES] or tuple(map(format_help_line, usual))
