"""Plain JSON that nobody can change: records share it with everybody who is told of them."""

from collections.abc import Mapping
from typing import Any, NoReturn

__all__ = ["FrozenDict", "frozen"]


class FrozenDict(dict[str, Any]):
    """A dict that refuses every change. Encoders write it like any other."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        message = "a record does not change; `dict(...)` gives a copy that does"
        raise TypeError(message)

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenDict, (dict(self),))


def frozen(value: Any) -> Any:
    """Return plain JSON as values that cannot be changed: read-only dicts, and tuples."""
    if isinstance(value, Mapping):
        return FrozenDict({key: frozen(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    return value
