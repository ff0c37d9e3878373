"""Lists of names, written as plain text."""

__all__ = ["names"]


def names(text: str) -> tuple[str, ...]:
    """Return the words of `text`; the tables list programs as plain text."""
    return tuple(text.split())
