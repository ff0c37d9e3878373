"""One run of an agent, as far as it was judged."""

from dataclasses import dataclass, field
from typing import Self

from pydantic_ai.messages import ModelMessage

from demur.enforce.approval import GrantFor
from demur.enforce.enforcer import Enforcer
from demur.integrations.pydantic_ai.calls import RunCalls
from demur.integrations.pydantic_ai.results import RunResults
from demur.integrations.pydantic_ai.talk import RunConversation

__all__ = ["PydanticRunState"]


@dataclass
class PydanticRunState:
    """The checked conversation, calls and results of one run; `messages` is its history."""

    conversation: RunConversation
    calls: RunCalls
    results: RunResults = field(default_factory=RunResults)
    messages: list[ModelMessage] = field(default_factory=list)

    @classmethod
    def begin(cls, enforcer: Enforcer, grant_for: GrantFor | None) -> Self:
        """Return the state of a new run."""
        return cls(RunConversation(enforcer), RunCalls(enforcer, grant_for))
