"""Read any object safely: mappings, SDK objects and protocol buffers alike.

Reading never raises. A field that is absent, broken or of another kind reads as absent, so a
reader states only the paths it knows. Either spelling of a name is found:
`node["blockReason"]` also finds `block_reason`. `to_bounded_json` copies a value as plain JSON
up to a limit, and says whether anything was left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from demur.errors import DemurError

_MAX_VISITS = 500_000
_MAX_ENTRIES = 10_000
_LONG_TEXT_LENGTH = 1000
_SAFE_TYPES = frozenset({dict, list, str, int, float, bool, type(None), bytes, tuple})
_PLAIN_TYPES = (Mapping, str, bytes, int, float, list, tuple)
_PYDANTIC_EXTRA = "__pydantic_extra__"
_COMPUTES = frozenset({"__class__", "__getattr__", "__getattribute__"})
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def safe_value(raw: Any) -> Any:
    """Return `raw`, or None for an object whose `__class__` raises."""
    try:
        isinstance(raw, Mapping)
    except Exception:  # noqa: BLE001 - `__class__` of someone else's object may raise anything
        return None
    return raw


class ResponseTooLargeError(DemurError):
    """An object that is larger than any real response."""


class ReadBudget:
    """Limits how much is read, so that no object can keep a reader busy for ever.

    Lists that contain themselves, or each other many times, are small and endless.
    """

    __slots__ = ("left", "spared")

    def __init__(self, left: int = _MAX_VISITS) -> None:
        self.left = left
        self.spared = 0

    def reserve(self) -> None:
        """Reserve three quarters of the remaining visits: one reader may use the rest."""
        self.spared = self.left - self.left // 4

    def release(self) -> None:
        """Release the reserved visits."""
        self.spared = 0

    def spend(self, visits: int) -> None:
        """Subtract visits from the budget.

        Raises:
            TooMuchError: The budget is used up.
        """
        # INVARIANT: reading any object ends after a bounded number of steps.
        self.left -= visits
        if self.left < self.spared:
            raise ResponseTooLargeError("the response holds more than demur can read")


class Node:
    """A value within a response, and its path."""

    __slots__ = ("budget", "path", "raw")

    def __init__(self, raw: Any, path: str = "", budget: ReadBudget | None = None) -> None:
        self.raw = raw if type(raw) in _SAFE_TYPES else safe_value(raw)
        self.path = path
        self.budget = budget

    def derive(self, raw: Any, path: str = "") -> "Node":
        """Return a node for another value that shares this one's budget."""
        return Node(raw, path, self.budget)

    def __getitem__(self, name: str) -> "Node":
        """Return the field called `name`, in camel or snake case; absent if there is none."""
        raw = self.raw
        if raw is None:
            return ABSENT
        if self.budget is not None:
            self.budget.spend(1)
        kind: Any = type(raw)
        names = _answerable_names(kind)
        for spelling in _name_spellings(name):
            # Fast path: most fields that readers ask for do not exist.
            if names is not None and spelling not in names and _lacks_name(raw, spelling, names):
                continue
            found = _read_field(raw, spelling)
            if found is not None:
                path = f"{self.path}.{spelling}" if self.path else spelling
                return Node(found, path, self.budget)
        return ABSENT

    def __iter__(self) -> Iterator["Node"]:
        """Yield the entries of a list; nothing for other values."""
        if self.raw is None:
            return
        for index, entry in enumerate(_iter_entries(self.raw)):
            if self.budget is not None:
                self.budget.spend(1)
            yield Node(entry, f"{self.path}[{index}]", self.budget)

    def fields(self) -> Iterator[tuple[str, "Node"]]:
        """Yield name and value of each field of a mapping or object."""
        names = [] if self.raw is None else _field_names(self.raw)
        if self.budget is not None:
            self.budget.spend(len(names))
        for name in islice(names, _MAX_ENTRIES):
            found = self[name]
            if found.present:
                yield name, found

    @property
    def present(self) -> bool:
        """Whether there is a value; null counts as none."""
        return self.raw is not None

    def __bool__(self) -> bool:
        return self.present

    @property
    def text(self) -> str | None:
        """The string, or the value of an enum member; None for other types."""
        if self.raw is None:
            return None
        if type(self.raw) is str:
            # A long text is slow to read and may occur in many places.
            if self.budget is not None and len(self.raw) > _LONG_TEXT_LENGTH:
                self.budget.spend(len(self.raw) // _LONG_TEXT_LENGTH)
            return self.raw
        if isinstance(self.raw, Enum):
            value = self.raw.value
            return value if isinstance(value, str) else self.raw.name
        return str.__str__(self.raw) if isinstance(self.raw, str) else None

    @property
    def number(self) -> float | None:
        """The number; None for other types, including booleans."""
        if isinstance(self.raw, int | float) and not isinstance(self.raw, bool):
            return self.raw
        return None

    @property
    def is_true(self) -> bool:
        """Whether this is exactly the boolean true."""
        return self.raw is True

    def __repr__(self) -> str:
        return f"<Node {self.path or '.'}>"


ABSENT = Node(None)


@lru_cache(maxsize=1024)
def _name_spellings(name: str) -> tuple[str, ...]:
    snake = _HUMP.sub("_", name).lower()
    return (name,) if snake == name else (name, snake)


def _read_field(raw: Any, name: str) -> Any:
    """Return a field of a mapping or object, or None. Methods do not count."""
    if type(raw) is dict:
        return raw.get(name)
    try:
        if isinstance(raw, Mapping):
            return raw.get(name)
        if isinstance(raw, str | bytes | int | float | list | tuple):
            return getattr(raw, name, None) if name in getattr(raw, "_fields", ()) else None
        found = _read_attribute(raw, name)
        is_method = callable(found) and not isinstance(found, Enum)
        return None if is_method else _enum_word(raw, name, found)
    # A property of someone else's object may raise anything at all.
    except Exception:  # noqa: BLE001 - see above
        return None


def _read_attribute(raw: Any, name: str) -> Any:
    """Return an attribute, or None. Most attributes that readers ask for do not exist.

    Pydantic models raise a formatted exception for these, which is slow. So the names of the
    class and the object are checked first.
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
    if _PYDANTIC_EXTRA in names:
        more = raw.__pydantic_extra__
        return None if more is None else more.get(name)
    return getattr(raw, name, None)


@lru_cache(maxsize=1024)
def _class_names(kind: type) -> frozenset[str]:
    return frozenset(dir(kind))


@lru_cache(maxsize=1024)
def _answerable_names(kind: Any) -> frozenset[str] | None:
    """Return the attribute names of a class, or None where only the object can tell.

    That is so if it computes attributes, overrides `__class__`, or has no `__dict__`.
    """
    names = _class_names(kind)
    computes = _COMPUTES - {"__getattr__"} if _PYDANTIC_EXTRA in names else _COMPUTES
    written = {name for one in kind.__mro__[:-1] for name in vars(one)}
    if written & computes or issubclass(kind, _PLAIN_TYPES) or not kind.__dictoffset__:
        return None
    return names


def _lacks_name(raw: Any, name: str, names: frozenset[str]) -> bool:
    """Return whether an object has no such attribute, given the names of its class."""
    try:
        return name not in raw.__dict__ and not (
            _PYDANTIC_EXTRA in names and name in (raw.__pydantic_extra__ or ())
        )
    except AttributeError:
        return False


def _enum_word(raw: Any, name: str, found: Any) -> Any:
    """Return the name of a protocol buffer's enum value, which is stored as a number."""
    if type(found) is not int:
        return found
    kind = getattr(getattr(type(raw), "DESCRIPTOR", None), "fields_by_name", {}).get(name)
    words = getattr(getattr(kind, "enum_type", None), "values_by_number", {})
    return words[found].name if found in words else found


def _iter_entries(raw: Any) -> Iterator[Any]:
    if isinstance(raw, str | bytes | bytearray | Mapping):
        return
    try:
        listed = isinstance(raw, Sequence) or hasattr(type(raw), "__len__")
        if listed:
            yield from islice(iter(raw), _MAX_ENTRIES)
    except Exception:  # noqa: BLE001 - someone else's list may raise anything while it is read
        return


def _field_names(raw: Any) -> list[str]:
    """Return the names of the fields of `raw`, without running its code."""
    try:
        if isinstance(raw, Mapping):
            return [name for name in islice(raw, _MAX_ENTRIES) if isinstance(name, str)]
        if isinstance(raw, str | bytes | int | float | list | tuple) or raw is None:
            return list(getattr(raw, "_fields", ()))
        kept = [*getattr(raw, "__dict__", {}), *(getattr(raw, "__pydantic_extra__", None) or {})]
        # Some libraries wrap a protocol buffer, which has the list of fields.
        for message in (raw, getattr(raw, "__dict__", {}).get("_pb")):
            kept += getattr(getattr(type(message), "DESCRIPTOR", None), "fields_by_name", ())
        kept += (slot for kind in type(raw).__mro__ for slot in _slot_names(kind))
    except Exception:  # noqa: BLE001 - someone else's mapping may raise anything while it is read
        return []
    return [name for name in dict.fromkeys(kept) if not name.startswith("_")]


def _slot_names(kind: type) -> Sequence[str]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


_MAX_DEPTH = 12
_MAX_VALUES = 500
_MAX_TEXT_LENGTH = 4000


class BoundedJson(NamedTuple):
    """A value as plain JSON, and whether any of it was left out."""

    value: Any
    cut: bool


def to_bounded_json(raw: Any) -> BoundedJson:
    """Return `raw` as plain JSON: at most 500 values, 12 deep, texts of 4,000 characters."""
    copier = _JsonCopier()
    value = copier.copy_value(Node(raw), _MAX_DEPTH)
    return BoundedJson(value, copier.cut)


class _JsonCopier:
    def __init__(self) -> None:
        self.left = _MAX_VALUES
        self.cut = False

    def copy_value(self, node: Node, depth: int) -> Any:
        self.left -= 1
        raw = node.raw
        if raw is None or isinstance(raw, bool):
            return raw
        if (text := node.text) is not None:
            return self._copy_text(text)
        if isinstance(raw, int | float):
            return self._copy_number(raw)
        if isinstance(raw, bytes | bytearray):
            return self._copy_text(bytes(raw[: _MAX_TEXT_LENGTH + 1]).decode("utf-8", "replace"))
        if depth == 0:
            self.cut = True
            return None
        return self._copy_items(node, depth - 1)

    def _copy_items(self, node: Node, depth: int) -> Any:
        named: dict[str, Any] = {}
        for name, item in node.fields():
            if self._is_full():
                break
            named[name] = self.copy_value(item, depth)
        if named:
            return named
        listed: list[Any] = []
        for item in node:
            if self._is_full():
                break
            listed.append(self.copy_value(item, depth))
        return listed if listed or isinstance(node.raw, list | tuple) else named

    def _is_full(self) -> bool:
        self.cut = self.cut or self.left <= 0
        return self.left <= 0

    def _copy_text(self, text: str) -> str:
        fit = text[:_MAX_TEXT_LENGTH].encode("utf-8", "replace").decode("utf-8")
        self.cut = self.cut or fit != text
        return fit

    def _copy_number(self, number: float) -> Any:
        fits = number == number and abs(number) < 2**63  # noqa: PLR0124 - not a number
        if not fits:
            self.cut = True
            return None
        return number
