"""Calls that waited for approval when somebody went on talking instead.

The framework drops the pause then, with whatever was found beside it, and leaves the calls without
an answer; providers take no such history.
"""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from demur.integrations.langchain.calls import CallNotes, list_noted_refusals
from demur.integrations.langchain.messages import answer_abandoned_call, list_open_calls

__all__ = ["answer_abandoned_calls"]


def answer_abandoned_calls(
    messages: Sequence[BaseMessage], notes: CallNotes
) -> list[BaseMessage] | None:
    """Return the messages with a reply to each abandoned call; None if no call waited.

    If the user sends a new message instead of resuming, LangGraph drops the interrupt and the
    results beside it. Providers reject a history with unanswered calls, so demur adds a reply
    to each of them, right after the model's turn.
    """
    if not notes:
        return None
    calls = list_open_calls(messages)
    refusals = list_noted_refusals(calls, notes)
    if not any(refusals):
        return None
    answers = [
        refused or answer_abandoned_call(call)
        for call, refused in zip(calls, refusals, strict=True)
    ]
    end = _end_of_turn(messages)
    return [*messages[:end], *answers, *messages[end:]]


def _end_of_turn(messages: Sequence[BaseMessage]) -> int:
    """Return the position after the model's last turn and the tool replies to it."""
    end = next(at for at in reversed(range(len(messages))) if isinstance(messages[at], AIMessage))
    end += 1
    while end < len(messages) and isinstance(messages[end], ToolMessage):
        end += 1
    return end
