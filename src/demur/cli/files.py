"""Files that commands write for people: a new one is never written over another by mistake."""

from pathlib import Path

from demur.errors import InputError

__all__ = ["write", "write_new"]


def write(path: Path, text: str) -> None:
    """Write a file, or replace it.

    Raises:
        InputError: It cannot be written.
    """
    _write(path, text, "w")


def write_new(path: Path, text: str, *, help_text: str) -> None:
    """Write a file that must not be there yet.

    Raises:
        InputError: It is there, or cannot be written.
    """
    try:
        _write(path, text, "x")
    except FileExistsError as error:
        raise InputError("the file is there already", where=str(path), help=help_text) from error


def _write(path: Path, text: str, mode: str) -> None:
    try:
        with path.open(mode, encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise
    # A path that holds a NUL is a ValueError, not an OSError.
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot write: {reason}", where=str(path)) from error
