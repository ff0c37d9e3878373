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

from demur.errors import DemurError

__all__ = ["ABSENT", "Meter", "Node", "TooMuchError", "tamed"]

_MOST_VISITS = 500_000
_MOST_ENTRIES = 10_000
_LONG = 1000
_TAME = frozenset({dict, list, str, int, float, bool, type(None), bytes, tuple})
_NO_OBJECTS = (Mapping, str, bytes, int, float, list, tuple)
_EXTRA = "__pydantic_extra__"
_COMPUTES = frozenset({"__class__", "__getattr__", "__getattribute__"})
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def tamed(raw: Any) -> Any:
    """Return `raw`, or None for an object that fails when it is asked what it is."""
    try:
        isinstance(raw, Mapping)
    except Exception:  # noqa: BLE001 - `__class__` of someone else's object may raise anything
        return None
    return raw


class TooMuchError(DemurError):
    """An object that takes more looking than any response would."""


class Meter:
    """Counts how much was looked at, so that no object can keep a reader busy for ever.

    Lists that contain themselves, or one another many times over, are small and endless.
    """

    __slots__ = ("left", "spared")

    def __init__(self, left: int = _MOST_VISITS) -> None:
        self.left = left
        self.spared = 0

    def spare(self) -> None:
        """Spare most of what is left for others: whoever looks next may use a quarter of it."""
        self.spared = self.left - self.left // 4

    def share(self) -> None:
        """Spare nothing any longer."""
        self.spared = 0

    def spend(self, visits: int) -> None:
        """Take so many visits off what is left.

        Raises:
            TooMuchError: Nothing is left.
        """
        # INVARIANT: reading any object ends after a bounded number of steps.
        self.left -= visits
        if self.left < self.spared:
            raise TooMuchError("there is more in the response than can be read")


class Node:
    """A value within a response and the path by which it was reached."""

    __slots__ = ("meter", "path", "raw")

    def __init__(self, raw: Any, path: str = "", meter: Meter | None = None) -> None:
        self.raw = raw if type(raw) in _TAME else tamed(raw)
        self.path = path
        self.meter = meter

    def beside(self, raw: Any, path: str = "") -> "Node":
        """Return another value that is read on the account of this one."""
        return Node(raw, path, self.meter)

    def __getitem__(self, name: str) -> "Node":
        """Return the field called `name`, in camel or snake case; absent if there is none."""
        raw = self.raw
        if raw is None:
            return ABSENT
        if self.meter is not None:
            self.meter.spend(1)
        kind: Any = type(raw)
        names = _names_beside(kind)
        for spelling in _spellings(name):
            # What is not there is most of what readers ask for.
            if names is not None and spelling not in names and _lacks(raw, spelling, names):
                continue
            found = _field(raw, spelling)
            if found is not None:
                path = f"{self.path}.{spelling}" if self.path else spelling
                return Node(found, path, self.meter)
        return ABSENT

    def __iter__(self) -> Iterator["Node"]:
        """Yield the entries of a list; of anything else, nothing."""
        if self.raw is None:
            return
        for index, entry in enumerate(_entries(self.raw)):
            if self.meter is not None:
                self.meter.spend(1)
            yield Node(entry, f"{self.path}[{index}]", self.meter)

    def fields(self) -> Iterator[tuple[str, "Node"]]:
        """Yield each field by name, of a mapping or of an object that keeps its own."""
        names = [] if self.raw is None else _names(self.raw)
        if self.meter is not None:
            self.meter.spend(len(names))
        for name in islice(names, _MOST_ENTRIES):
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
        if self.raw is None:
            return None
        if type(self.raw) is str:
            # A long text is work for whoever reads it, and may stand in many places.
            if self.meter is not None and len(self.raw) > _LONG:
                self.meter.spend(len(self.raw) // _LONG)
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
        found = _attribute(raw, name)
        return _protocol_word(raw, name, found) if _is_value(found) else None
    # A property of someone else's object may raise anything at all.
    except Exception:  # noqa: BLE001 - see above
        return None


def _attribute(raw: Any, name: str) -> Any:
    """Return an attribute, or None; what is not there is most of what readers ask for.

    Objects of models answer that by an exception with a text, which takes many times as long
    as all else: where the class and the object's own names tell, they are not asked.
    """
    kind: Any = type(raw)
    names = _class_names(kind)
    if name in names or kind.__getattribute__ is not object.__getattribute__:
        return getattr(raw, name, None)
    own = getattr(raw, "__dict__", None)
    if own is not None and name in own:
        return own[name]
    if "__getattr__" not in names:
        return None
    if _EXTRA in names:
        more = raw.__pydantic_extra__
        return None if more is None else more.get(name)
    return getattr(raw, name, None)


@lru_cache(maxsize=1024)
def _class_names(kind: type) -> frozenset[str]:
    return frozenset(dir(kind))


@lru_cache(maxsize=1024)
def _names_beside(kind: Any) -> frozenset[str] | None:
    """Return the names that objects of a class answer to beside those that they keep themselves.

    None where only the object can tell: it computes names, hides its class, or keeps none.
    """
    names = _class_names(kind)
    computes = _COMPUTES - {"__getattr__"} if _EXTRA in names else _COMPUTES
    written = {name for one in kind.__mro__[:-1] for name in vars(one)}
    if written & computes or issubclass(kind, _NO_OBJECTS) or not kind.__dictoffset__:
        return None
    return names


def _lacks(raw: Any, name: str, names: frozenset[str]) -> bool:
    """Return whether an object does not keep a name that its class does not have either."""
    try:
        return name not in raw.__dict__ and not (
            _EXTRA in names and name in (raw.__pydantic_extra__ or ())
        )
    except AttributeError:
        return False


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
