"""One run of an agent, as far as it was judged."""

from dataclasses import dataclass, field
from typing import Self

from pydantic_ai.messages import ModelMessage

from demur.enforce.approval import GrantFor
from demur.enforce.enforcer import Enforcer
from demur.integrations.pydantic_ai.calls import Calls
from demur.integrations.pydantic_ai.results import Results
from demur.integrations.pydantic_ai.talk import Talk

__all__ = ["Run"]


@dataclass
class Run:
    """The checked conversation, calls and results of one run; `messages` is its history."""

    talk: Talk
    calls: Calls
    results: Results = field(default_factory=Results)
    messages: list[ModelMessage] = field(default_factory=list)

    @classmethod
    def begin(cls, enforcer: Enforcer, grant_for: GrantFor | None) -> Self:
        """Return the state of a new run."""
        return cls(Talk(enforcer), Calls(enforcer, grant_for))
