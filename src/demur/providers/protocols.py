"""A refusal in a protocol message: demur's own forms, MCP and A2A."""

from collections.abc import Iterator

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, SignalOutcome, interpret, max_signal
from demur.providers.upstream import find_envelope, find_own_refusal

_DEMUR = "demur"


def read_own_refusal(shape: ResponseShape) -> Signal | None:
    """Return the refusal of demur in the object, or None.

    The original refusal is read, whatever carried it.
    """
    body = shape.body
    # A model's text may quote a refusal anywhere; a guard's answer begins with it.
    places = (shape.own, body, body["error"], body["error"]["data"])
    found = find_own_refusal(_DEMUR, *places, Node(shape.message, "message"))
    return found or find_own_refusal(_DEMUR, *_refusal_words(body), last=True)


def _refusal_words(body: Node) -> Iterator[Node]:
    """Yield the refusal texts in OpenAI's formats, never the texts of answers."""
    for choice in body["choices"]:
        yield choice["message"]["refusal"]
    for item in body["output"]:
        for part in item["content"]:
            yield part["refusal"]


_MCP = "mcp"
# Equal to `MCP_META_KEY` of demur.emit, which is in the same layer.
_META_KEY = "demur/refusal"
_ERRORS = ("McpError", "MCPError", "UrlElicitationRequiredError")
_ELICITATIONS = (
    "ElicitResult",
    "AcceptedElicitation",
    "DeclinedElicitation",
    "CancelledElicitation",
)
_ELICITED = frozenset({"action", "content", "data", "_meta", "meta", "resultType", "result_type"})


def read_mcp(shape: ResponseShape) -> Signal | None:
    """Return the refusal in an MCP message, or None.

    A denial and a failure both set `isError`, so only an envelope makes a result a refusal: its
    text may come from anyone. An error number refuses only if the protocol says so.
    """
    if shape.has_type(*_ERRORS):
        return _read_error(shape.own["error"] or shape.own)
    message = shape.own
    if message["jsonrpc"]:
        error = _read_error(message["error"])
        if error is not None:
            return error
        message = message["result"]
    # The envelope counts without `isError` too, which some servers forget.
    metas = (message[name][_META_KEY] for name in ("_meta", "meta"))
    found = find_envelope(_MCP, *metas, message["structuredContent"]["refusal"])
    return found or _read_elicitation(message)


def _read_error(error: Node) -> Signal | None:
    number = error["code"].number
    if number is None:
        return None
    found = find_own_refusal(_MCP, error["data"]["refusal"], error["message"])
    if found is not None:
        return found
    if denial := error["data"]["authorization"]:
        reason = denial["reason"]
        return interpret(_MCP, "denial", reason.text).to_signal(reason or denial)
    judged = interpret(_MCP, "error_code", f"{number:.0f}")
    return judged.to_signal(error["code"]) if judged.known else None


def _read_elicitation(result: Node) -> Signal | None:
    action = result["action"]
    kind = type(result.raw).__name__
    answers = kind in _ELICITATIONS or {name for name, _ in result.fields()} <= _ELICITED
    if action.text is None or not answers:
        return None
    judged = interpret(_MCP, "elicitation", action.text)
    return judged.to_signal(action) if judged.known else None


_A2A = "a2a"


def read_a2a(shape: ResponseShape) -> Signal | None:
    """Return the signal of a task's state, also inside a response or an event."""
    body = shape.body
    result = body["result"]
    tasks = [body, body["task"], body["statusUpdate"], result, result["task"]]
    return max_signal(_read_task_state(task) for task in tasks)


def _read_task_state(task: Node) -> Signal | None:
    state = task["status"]["state"]
    if state.text is not None:
        judged = interpret(_A2A, "task_state", state.text)
    elif state.number is not None and _is_task(task):
        judged = interpret(_A2A, "task_state_number", f"{state.number:.0f}")
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
