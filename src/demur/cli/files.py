"""Write files; `write_new_file` never replaces an existing one."""

from pathlib import Path

from demur.errors import InputError

__all__ = ["write_file", "write_new_file"]


def write_file(path: Path, text: str) -> None:
    """Write a file, replacing an existing one.

    Raises:
        InputError: The file cannot be written.
    """
    _write_text(path, text, "w")


def write_new_file(path: Path, text: str, *, help_text: str) -> None:
    """Write a file that must not exist yet.

    Raises:
        InputError: The file exists, or cannot be written.
    """
    try:
        _write_text(path, text, "x")
    except FileExistsError as error:
        raise InputError("the file already exists", where=str(path), help=help_text) from error


def _write_text(path: Path, text: str, mode: str) -> None:
    try:
        with path.open(mode, encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise
    # A path that holds a NUL is a ValueError, not an OSError.
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot write: {reason}", where=str(path)) from error
