"""The parameters of a guarded function, and the arguments of a call by name."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

from demur.errors import InputTypeError

__all__ = ["CONSTRAINTS", "Arguments", "FunctionParameters"]

# The keyword-only parameter that demur fills in.
CONSTRAINTS = "constraints"
_RECEIVERS = ("self", "cls")

# The arguments of one call, by the names of the parameters.
Arguments = Mapping[str, Any]


class FunctionParameters(NamedTuple):
    """The parameters as callers see them, without `constraints`."""

    signature: inspect.Signature
    takes_constraints: bool
    receiver: str | None
    extra_keywords: str | None

    @classmethod
    def from_function(cls, function: Callable[..., Any]) -> Self:
        """Return the parameters of a function.

        Raises:
            InputTypeError: The function has no signature.
        """
        try:
            signature = inspect.signature(function)
        except ValueError as error:
            problem = "the function has no signature"
            raise InputTypeError(problem, help="wrap it in a Python function") from error
        every = tuple(signature.parameters.values())
        shown = [p for p in every if p.name != CONSTRAINTS or p.kind is not p.KEYWORD_ONLY]
        owned = shown and shown[0].name in _RECEIVERS and _is_in_class(function)
        owner = shown[0].name if owned else None
        rest = next((p.name for p in shown if p.kind is p.VAR_KEYWORD), None)
        return cls(signature.replace(parameters=shown), len(shown) < len(every), owner, rest)

    def bind_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return all arguments of a call, defaults included.

        Raises:
            TypeError: The function cannot be called like that.
        """
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    def visible_arguments(self, bound: Arguments) -> dict[str, Any]:
        """Return the arguments to check: without `self`, and with `**kwargs` by their own names."""
        shown = {name: value for name, value in bound.items() if name != self.receiver}
        more = {} if self.extra_keywords is None else shown.pop(self.extra_keywords)
        # A keyword must not hide a positional argument of the same name.
        if not shown.keys().isdisjoint(more):
            more = {f"**{self.extra_keywords}": more}
        return {**shown, **more}


def _is_in_class(function: Callable[..., Any]) -> bool:
    place = str(getattr(function, "__qualname__", "")).rpartition(".")[0]
    return bool(place) and not place.endswith("<locals>")
