"""Immutable JSON: records share it with every sink."""

from collections.abc import Mapping
from typing import Any, NoReturn

__all__ = ["FrozenDict", "freeze_json"]


class FrozenDict(dict[str, Any]):
    """A dict that refuses every change. Encoders write it like any dict."""

    def _refuse_change(self, *_: object, **__: object) -> NoReturn:
        message = "a record is immutable; `dict(...)` gives a copy that can be changed"
        raise TypeError(message)

    __setitem__ = __delitem__ = __ior__ = _refuse_change
    clear = pop = popitem = setdefault = update = _refuse_change

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenDict, (dict(self),))


def freeze_json(value: Any) -> Any:
    """Return plain JSON as immutable values: read-only dicts, and tuples."""
    if isinstance(value, Mapping):
        return FrozenDict({key: freeze_json(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze_json(item) for item in value)
    return value
