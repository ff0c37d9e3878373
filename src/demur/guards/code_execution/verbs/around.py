"""What a rule may look at beside the call itself."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from demur.guards.code_execution.call import Call, Sight
from demur.guards.code_execution.config import CommandConfig
from demur.guards.code_execution.places import Bounds, Place, place
from demur.guards.code_execution.value import Arg, Value

__all__ = ["Around", "Judge", "Rows"]


class Around(NamedTuple):
    """The settings and bounds for a call, and the files that earlier commands wrote."""

    config: CommandConfig
    bounds: Bounds
    files: Mapping[str, Value] = {}

    def own(self, arg: Arg, cwd: str) -> bool:
        """Whether a path lies in the workspace or in scratch."""
        return place(arg.text, cwd, self.bounds) in _OWN


_OWN = frozenset({Place.INSIDE, Place.WORKSPACE_ITSELF, Place.SCRATCH, Place.STREAM})
Judge: TypeAlias = Callable[[Call, Around], Iterator[Sight]]
# Verb -> (rule, pattern over the arguments joined by blanks); the first match counts.
Rows: TypeAlias = dict[str, tuple[tuple[str, str], ...]]
