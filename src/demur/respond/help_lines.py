"""Places that help, each as one line: given by the caller, seen as evidence, or the locale's."""

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["help_line", "help_lines"]

_LONGEST = 200
_MOST = 8
# Markup is removed; addresses and numbers stay.
_MARKUP = str.maketrans(dict.fromkeys("[]<>`|\\{}", " "))


def help_line(resource: Any) -> str:
    """Return a help resource as one line; empty if it names none."""
    if isinstance(resource, Mapping):
        country = resource.get("country")
        place = f" ({country})" if country else ""
        resource = f"{resource.get('name', '')}{place}: {resource.get('contact', '')}"
    if not isinstance(resource, str):
        return ""
    text = "".join(c if c.isprintable() else " " for c in resource[: _LONGEST * 2])
    return " ".join(text.translate(_MARKUP).split())[:_LONGEST].strip(": ")


def help_lines(named: Iterable[Any], usual: Iterable[Any]) -> tuple[str, ...]:
    """Return the lines that were named, each once, or else the usual ones."""
    found = dict.fromkeys(line for line in map(help_line, named) if line)
    return tuple(found)[:_MOST] or tuple(map(help_line, usual))
