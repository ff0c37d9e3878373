"""Lists of names, written as plain text."""

__all__ = ["split_names"]


def split_names(text: str) -> tuple[str, ...]:
    """Return the words of `text`; the tables list programs as plain text."""
    return tuple(text.split())
