"""The file of Claude Code's settings: read as it is, replaced in one step, with a copy kept."""

import os
from itertools import count
from pathlib import Path
from tempfile import mkstemp
from typing import NamedTuple

from demur.errors import InputError

__all__ = ["SettingsFile", "read_settings_file", "replace_settings_file"]

_MAX_SETTINGS_BYTES = 10_000_000
_OWNER_ONLY = 0o600


class SettingsFile(NamedTuple):
    """A settings file and its text; `target` is its resolved path."""

    path: Path
    target: Path
    text: str
    exists: bool


def read_settings_file(path: Path) -> SettingsFile:
    """Return the file at a path, which need not exist yet.

    Raises:
        InputError: It cannot be read.
    """
    try:
        target = path.resolve()
        if not target.exists():
            return SettingsFile(path, target, "", exists=False)
        if target.stat().st_size > _MAX_SETTINGS_BYTES:
            raise InputError(f"more than {_MAX_SETTINGS_BYTES} bytes", where=str(path))
        text = target.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8 text", where=str(path)) from error
    except (OSError, RuntimeError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot read the settings: {reason}", where=str(path)) from error
    return SettingsFile(path, target, text, exists=True)


def replace_settings_file(file: SettingsFile, text: str) -> Path | None:
    """Replace the text of the file; return the backup of the old text, if there was one.

    Raises:
        InputError: It cannot be written, or it changed since it was read.
    """
    try:
        if read_settings_file(file.path) != file:
            raise InputError(
                "the file has changed since it was read", where=str(file.path), help="try again"
            )
        file.target.parent.mkdir(parents=True, exist_ok=True)
        copy = _keep_backup(file) if file.exists else None
        mode = file.target.stat().st_mode & 0o777 if file.exists else _OWNER_ONLY
        _swap_content(file.target, text, mode)
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise InputError(f"cannot write: {reason}", where=str(file.path)) from error
    return copy


def _swap_content(target: Path, text: str, mode: int) -> None:
    handle, name = mkstemp(prefix=f".{target.name}.", dir=target.parent)
    new = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(text.encode())
            out.flush()
            os.fsync(out.fileno())
        new.chmod(mode)
        new.replace(target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _keep_backup(file: SettingsFile) -> Path:
    """Copy the old settings to a new file beside them, and return its path."""
    for number in count():
        path = file.target.with_name(f"{file.target.name}.bak{number or ''}")
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        except FileExistsError:
            continue
        with os.fdopen(handle, "wb") as out:
            out.write(file.text.encode())
        break
    return path
