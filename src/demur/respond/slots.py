"""Fill the gaps of a template. A gap is never shown: what cannot fill it is left out."""

import math
from collections.abc import Iterator, Mapping
from string import Formatter
from typing import Any

from demur.respond.plain import clean_path, clean_name, clean_phrase
from demur.respond.template import Slot, SlotKind

__all__ = ["fill_slot", "fill_text", "slot_names"]

_MINUTE = 60
_HOUR = 3600
# Up to one and a half of the next unit, the smaller unit is clearer.
_SHORT = 1.5
_MAX_WAIT = 30 * 24 * _HOUR


def slot_names(text: str) -> Iterator[str]:
    """Yield the slots in a text.

    Raises:
        ValueError: A brace is open, or a slot is more than a name.
    """
    for _, slot, form, conversion in Formatter().parse(text):
        if slot is not None:
            if not slot.isidentifier() or form or conversion:
                message = f"`{{{slot}}}` is no slot"
                raise ValueError(message)
            yield slot


def fill_text(text: str, values: Mapping[str, str]) -> str:
    """Return the text with its slots filled."""
    return text.format_map(values)


def fill_slot(
    slot: Slot,
    given: object,
    evidence: Mapping[str, Any],
    phrases: Mapping[str, str],
) -> str | None:
    """Return the text for a slot, or None if neither the caller nor evidence has a usable one."""
    seen = None if slot.evidence is None else evidence.get(slot.evidence)
    candidates = (_fit_value(slot.kind, value, phrases) for value in (given, seen))
    return next((text for text in candidates if text is not None), None)


def _fit_value(kind: SlotKind, value: object, phrases: Mapping[str, str]) -> str | None:
    if kind is SlotKind.DURATION:
        return _format_duration(value, phrases)
    if kind is SlotKind.PATH:
        return clean_path(value)
    return clean_name(value) if kind is SlotKind.NAME else clean_phrase(value)


def _format_duration(value: object, phrases: Mapping[str, str]) -> str | None:
    if isinstance(value, str):
        value = _parse_number(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    # Written so that NaN is rejected as well.
    if not 0 < value <= _MAX_WAIT:
        return None
    unit, size = "second", 1
    for longer, length in (("minute", _MINUTE), ("hour", _HOUR)):
        if value > length * _SHORT:
            unit, size = longer, length
    count = math.ceil(value / size)
    return phrases[unit if count == 1 else f"{unit}s"].replace("{n}", str(count))


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
