"""A careful look into any object: mappings, SDK objects and protocol buffers read alike.

Looking never raises. What is absent, broken or of another kind reads as absent, so
that a reader states only the paths it knows. A name is found in either spelling:
`node["blockReason"]` also finds `block_reason`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import Any

__all__ = ["ABSENT", "Node", "tamed"]

_MOST_ENTRIES = 10_000
_TAME = frozenset({dict, list, str, int, float, bool, type(None), bytes, tuple})
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def tamed(raw: Any) -> Any:
    """Return `raw`, or None for an object that fails when it is asked what it is."""
    try:
        isinstance(raw, Mapping)
    except Exception:  # noqa: BLE001 - `__class__` of someone else's object may raise anything
        return None
    return raw


class Node:
    """A value within a response and the path by which it was reached."""

    __slots__ = ("path", "raw")

    def __init__(self, raw: Any, path: str = "") -> None:
        self.raw = raw if type(raw) in _TAME else tamed(raw)
        self.path = path

    def __getitem__(self, name: str) -> "Node":
        """Return the field called `name`, in camel or snake case; absent if there is none."""
        if self.raw is None:
            return ABSENT
        for spelling in _spellings(name):
            found = _field(self.raw, spelling)
            if found is not None:
                return Node(found, f"{self.path}.{spelling}" if self.path else spelling)
        return ABSENT

    def __iter__(self) -> Iterator["Node"]:
        """Yield the entries of a list; of anything else, nothing."""
        for index, entry in enumerate(_entries(self.raw)):
            yield Node(entry, f"{self.path}[{index}]")

    def fields(self) -> Iterator[tuple[str, "Node"]]:
        """Yield each field by name, of a mapping or of an object that keeps its own."""
        for name in islice(_names(self.raw), _MOST_ENTRIES):
            found = self[name]
            if found.present:
                yield name, found

    @property
    def present(self) -> bool:
        """Whether there is anything here; null counts as nothing."""
        return self.raw is not None

    def __bool__(self) -> bool:
        return self.present

    @property
    def text(self) -> str | None:
        """The string here, or the word of an enum member; None for anything else."""
        if type(self.raw) is str:
            return self.raw
        if isinstance(self.raw, Enum):
            value = self.raw.value
            return value if isinstance(value, str) else self.raw.name
        return str.__str__(self.raw) if isinstance(self.raw, str) else None

    @property
    def number(self) -> float | None:
        """The number here; None for anything else, booleans too."""
        if isinstance(self.raw, int | float) and not isinstance(self.raw, bool):
            return self.raw
        return None

    @property
    def true(self) -> bool:
        """Whether this is the boolean true, and nothing that merely counts as such."""
        return self.raw is True

    def __repr__(self) -> str:
        return f"<Node {self.path or '.'}>"


ABSENT = Node(None)


@lru_cache(maxsize=1024)
def _spellings(name: str) -> tuple[str, ...]:
    snake = _HUMP.sub("_", name).lower()
    return (name,) if snake == name else (name, snake)


def _field(raw: Any, name: str) -> Any:
    """Return a field of a mapping or object, or None. Methods are no fields."""
    if type(raw) is dict:
        return raw.get(name)
    try:
        if isinstance(raw, Mapping):
            return raw.get(name)
        if isinstance(raw, str | bytes | int | float | list | tuple):
            return _tuple_field(raw, name)
        found = getattr(raw, name, None)
        return _protocol_word(raw, name, found) if _is_value(found) else None
    # A property of someone else's object may raise anything at all.
    except Exception:  # noqa: BLE001 - see above
        return None


def _tuple_field(raw: Any, name: str) -> Any:
    return getattr(raw, name, None) if name in getattr(raw, "_fields", ()) else None


def _is_value(found: Any) -> bool:
    return not callable(found) or isinstance(found, Enum)


def _protocol_word(raw: Any, name: str, found: Any) -> Any:
    """Return the word of a protocol buffer's enum, which its field gives as a bare number."""
    if type(found) is not int:
        return found
    kind = getattr(getattr(type(raw), "DESCRIPTOR", None), "fields_by_name", {}).get(name)
    words = getattr(getattr(kind, "enum_type", None), "values_by_number", {})
    return words[found].name if found in words else found


def _entries(raw: Any) -> Iterator[Any]:
    if isinstance(raw, str | bytes | bytearray | Mapping):
        return
    try:
        listed = isinstance(raw, Sequence) or hasattr(type(raw), "__len__")
        if listed:
            yield from islice(iter(raw), _MOST_ENTRIES)
    except Exception:  # noqa: BLE001 - someone else's list may raise anything while it is read
        return


def _names(raw: Any) -> list[str]:
    """Return the names of the fields that `raw` keeps, without running any of its code."""
    try:
        if isinstance(raw, Mapping):
            return [name for name in islice(raw, _MOST_ENTRIES) if isinstance(name, str)]
        if isinstance(raw, str | bytes | int | float | list | tuple) or raw is None:
            return list(getattr(raw, "_fields", ()))
        kept = [*getattr(raw, "__dict__", {}), *(getattr(raw, "__pydantic_extra__", None) or {})]
        # Some libraries wrap a protocol buffer, which alone knows its fields.
        for message in (raw, getattr(raw, "__dict__", {}).get("_pb")):
            kept += getattr(getattr(type(message), "DESCRIPTOR", None), "fields_by_name", ())
        kept += (slot for kind in type(raw).__mro__ for slot in _slots(kind))
    except Exception:  # noqa: BLE001 - someone else's mapping may raise anything while it is read
        return []
    return [name for name in dict.fromkeys(kept) if not name.startswith("_")]


def _slots(kind: type) -> Sequence[str]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
