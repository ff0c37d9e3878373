"""Rules that outlive a compaction: whoever summarises is told to keep them, and they come again.

Claude Code takes the message of a hook before a compaction as an instruction to who writes
the summary, and the context that a hook gives when a compacted session starts as its own.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demur.errors import InputError

__all__ = ["Pins", "PinsError", "keeping", "read_pins", "reminding"]

Pins = Sequence[str]

_LARGEST = 100_000


class PinsError(InputError):
    """Rules that should be pinned cannot be."""


def read_pins(paths: Sequence[Path | str]) -> tuple[str, ...]:
    """Return the texts in files, in their order; an empty one pins nothing.

    Raises:
        PinsError: One cannot be read, or is too long to be said again and again.
    """
    return tuple(text for path in paths if (text := _read(Path(path))))


def keeping(pins: Pins) -> dict[str, Any]:
    """Return what a hook prints before a compaction."""
    if not pins:
        return {}
    begin = "Keep these rules in the summary, word for word:"
    return {"systemMessage": "\n\n".join((begin, *pins))}


def reminding(pins: Pins) -> dict[str, Any]:
    """Return what a hook prints when a session starts from its summary."""
    if not pins:
        return {}
    begin = "These rules hold as they did before the conversation was summarised:"
    context = "\n\n".join((begin, *pins))
    special = {"hookEventName": "SessionStart", "additionalContext": context}
    return {"hookSpecificOutput": special}


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or "not UTF-8 text").lower()
        raise PinsError(
            f"the rules that `--pin` names cannot be read: {reason}; put the file back, or "
            "install the hooks without it",
            where=str(path),
        ) from error
    if len(text) > _LARGEST:
        raise PinsError(f"more than {_LARGEST} characters to pin", where=str(path))
    return text
