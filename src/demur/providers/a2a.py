"""A2A: a task that another agent rejected, or that waits for authority or an answer."""

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, SignalOutcome, load_system, strongest_signal

__all__ = ["NAME", "read"]

NAME = "a2a"


def read(shape: ResponseShape) -> Signal | None:
    """Return the signal of a task's state, also inside a response or an event."""
    body = shape.body
    result = body["result"]
    tasks = [body, body["task"], body["statusUpdate"], result, result["task"]]
    return strongest_signal(_read_task_state(task) for task in tasks)


def _read_task_state(task: Node) -> Signal | None:
    state = task["status"]["state"]
    if state.text is not None:
        judged = load_system(NAME).interpret("task_state", state.text)
    elif state.number is not None and _is_task(task):
        judged = load_system(NAME).interpret("task_state_number", f"{state.number:.0f}")
    else:
        return None
    if judged.outcome is not SignalOutcome.REFUSAL:
        return judged.to_signal(state)
    message = task["status"]["message"]
    parts = [*message["parts"], *message["content"]]
    words = " ".join(part["text"].text or "" for part in parts).strip()
    evidence = {"task": task["id"].text or task["taskId"].text, "native_reason": state.text}
    return judged.to_signal(state, detail=words, evidence=evidence)


def _is_task(task: Node) -> bool:
    """Return whether this is a task: other objects have a numeric `state` too."""
    named = task["kind"].text in {"task", "status-update"}
    return named or task["contextId"].present or task["taskId"].present
