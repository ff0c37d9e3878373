"""What a rule may look at beside the call itself."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from demur.guards.code_execution.call import ProgramCall, CommandHit
from demur.guards.code_execution.config import CommandConfig
from demur.guards.code_execution.places import WorkspaceBounds, PathKind, classify_path
from demur.guards.code_execution.value import CommandArg, TextValue

__all__ = ["CommandContext", "CommandCheck", "CommandRows"]


class CommandContext(NamedTuple):
    """The settings and bounds for a call, and the files that earlier commands wrote."""

    config: CommandConfig
    bounds: WorkspaceBounds
    files: Mapping[str, TextValue] = {}

    def is_own_path(self, arg: CommandArg, cwd: str) -> bool:
        """Whether a path lies in the workspace or in scratch."""
        return classify_path(arg.text, cwd, self.bounds) in _OWN


_OWN = frozenset({PathKind.INSIDE, PathKind.WORKSPACE_ITSELF, PathKind.SCRATCH, PathKind.STREAM})
CommandCheck: TypeAlias = Callable[[ProgramCall, CommandContext], Iterator[CommandHit]]
# Verb -> (rule, pattern over the arguments joined by blanks); the first match counts.
CommandRows: TypeAlias = dict[str, tuple[tuple[str, str], ...]]
