"""Pinned rules outlive a compaction: the summary is told to keep them, and a hook restates them.

Claude Code passes a hook's message before a compaction to the model that writes the summary. It
adds the context that a hook returns at the start of a compacted session.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demur.errors import InputError

__all__ = ["PinnedRules", "PinsError", "keep_pins_output", "read_pins", "restate_pins_output"]

PinnedRules = Sequence[str]

_MAX_PIN_LENGTH = 100_000


class PinsError(InputError):
    """A file of pinned rules cannot be used."""


def read_pins(paths: Sequence[Path | str]) -> tuple[str, ...]:
    """Return the rules in files, in order; an empty file pins nothing.

    Raises:
        PinsError: A file cannot be read, or is too long to be repeated.
    """
    return tuple(text for path in paths if (text := _read_pin(Path(path))))


def keep_pins_output(pins: PinnedRules) -> dict[str, Any]:
    """Return the hook output before a compaction, which asks to keep the pinned rules."""
    if not pins:
        return {}
    begin = "Keep these rules in the summary, word for word:"
    return {"systemMessage": "\n\n".join((begin, *pins))}


def restate_pins_output(pins: PinnedRules) -> dict[str, Any]:
    """Return the hook output when a session starts from a summary: the pinned rules."""
    if not pins:
        return {}
    begin = "These rules hold as they did before the conversation was summarised:"
    context = "\n\n".join((begin, *pins))
    special = {"hookEventName": "SessionStart", "additionalContext": context}
    return {"hookSpecificOutput": special}


def _read_pin(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or "not UTF-8 text").lower()
        raise PinsError(
            f"the rules that `--pin` names cannot be read: {reason}; put the file back, or "
            "install the hooks without it",
            where=str(path),
        ) from error
    if len(text) > _MAX_PIN_LENGTH:
        raise PinsError(f"more than {_MAX_PIN_LENGTH} characters to pin", where=str(path))
    return text
