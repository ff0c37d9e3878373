"""Objects that look like those of a framework: the same class, module and attributes.

No framework is installed for the tests, and none may be imported: what counts is the form.
"""

from typing import Any

__all__ = ["error", "thing"]


def error(module: str, name: str, text: str = "", /, *, base: str = "", **fields: Any) -> Exception:
    """Return an exception of a class `name` in `module`, below a class `base` if one is named."""
    parent = type(base, (Exception,), {"__module__": module}) if base else Exception
    made: Exception = type(name, (parent,), {"__module__": module})(text)
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def thing(module: str, name: str, /, **fields: Any) -> Any:
    """Return an object of a class `name` in `module` with these fields."""
    made = type(name, (), {"__module__": module})()
    for field, value in fields.items():
        setattr(made, field, value)
    return made
