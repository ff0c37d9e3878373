"""Subagents: find those that have no guard, and end the run of the agent that called them.

`create_deep_agent(middleware=[…])` gives its middleware to the main agent only, and adds a
general-purpose subagent with all tools of the main agent.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase

from demur.errors import InputError

# A graph with this channel has a guard.
_GUARD_CHANNEL = "demur_calls"
_MODULE = "deepagents.middleware.subagents"
_HELP = "`subagents=guard.protect_subagents([…])`, with a `DeepAgentsGuard`"


def require_guarded_subagents(tools: Sequence[Any], unguarded: Collection[str]) -> None:
    """Examine the tools of an agent that call subagents.

    Raises:
        InputError: A subagent has no guard, or cannot be examined.
    """
    for tool in tools:
        call = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
        if getattr(call, "__module__", None) != _MODULE:
            continue
        graphs = dict(_list_subagents(call))
        if not graphs:
            raise InputError("demur cannot examine the subagents of this version of deepagents")
        missing = [name for name, graph in graphs.items() if not has_guard(graph)]
        names = ", ".join(f"`{name}`" for name in missing if name not in unguarded)
        if names:
            raise InputError(f"subagents without a guard: {names}", where="subagents", help=_HELP)


# The closing answers of agents that ran inside the current tool call.
_closing_answers: ContextVar[list[AIMessage] | None] = ContextVar("demur_closing", default=None)


@contextmanager
def collect_closing_answers() -> Iterator[list[AIMessage]]:
    """Yield the closing answers of agents that run inside the block, as they come."""
    found: list[AIMessage] = []
    token = _closing_answers.set(found)
    try:
        yield found
    finally:
        _closing_answers.reset(token)


def note_closing_answer(answer: AIMessage) -> AIMessage:
    """Return the answer that ends a run after a hard refusal; the agent that called sees it."""
    found = _closing_answers.get()
    if found is not None:
        found.append(answer)
    return answer


def _list_subagents(call: Any) -> Iterator[tuple[str, Runnable[Any, Any]]]:
    """Yield the subagents that a tool's function holds, by name."""
    for cell in call.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:
            continue
        for name, graph in held.items() if isinstance(held, dict) else ():
            if isinstance(graph, Runnable):
                yield name, graph


def has_guard(graph: Any) -> bool:
    """Return whether a compiled agent has a guard."""
    while isinstance(graph, RunnableBindingBase):
        graph = graph.bound
    return _GUARD_CHANNEL in getattr(graph, "channels", ())
