"""Lists of names, written as plain text."""

__all__ = ["names"]


def names(text: str) -> tuple[str, ...]:
    """Return the words of `text`: the way in which the tables of this guard list programs."""
    return tuple(text.split())
