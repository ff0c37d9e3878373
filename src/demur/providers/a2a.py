"""A2A: a task that another agent rejected, or that waits for authority or an answer."""

from demur.providers.mapping import system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Outcome, Signal, strongest

__all__ = ["NAME", "read"]

NAME = "a2a"


def read(shape: Shape) -> Signal | None:
    """Return the signal of a task's state, also inside a response or an event."""
    body = shape.body
    result = body["result"]
    tasks = [body, body["task"], body["statusUpdate"], result, result["task"]]
    return strongest(_state(task) for task in tasks)


def _state(task: Node) -> Signal | None:
    state = task["status"]["state"]
    if state.text is not None:
        judged = system(NAME).judge("task_state", state.text)
    elif state.number is not None and _is_task(task):
        judged = system(NAME).judge("task_state_number", f"{state.number:.0f}")
    else:
        return None
    if judged.outcome is not Outcome.REFUSAL:
        return judged.signal(state)
    message = task["status"]["message"]
    parts = [*message["parts"], *message["content"]]
    words = " ".join(part["text"].text or "" for part in parts).strip()
    evidence = {"task": task["id"].text or task["taskId"].text, "native_reason": state.text}
    return judged.signal(state, detail=words, evidence=evidence)


def _is_task(task: Node) -> bool:
    """Return whether this is a task: other objects have a numeric `state` too."""
    named = task["kind"].text in {"task", "status-update"}
    return named or task["contextId"].present or task["taskId"].present
