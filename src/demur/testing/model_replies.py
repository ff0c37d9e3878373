"""Replies of the test model server: completions, streams, and faults."""

import hashlib
import json
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from demur.testing.model_personas import Heard, Said, speak

__all__ = ["FAULTS", "Reply", "reply_to"]

_JSON = "application/json"
_EVENTS = "text/event-stream"
_PIECE = 12


class Reply(NamedTuple):
    """An HTTP reply. `cut`: it stops before its end; `never`: it is never sent."""

    status: int
    kind: str
    parts: tuple[bytes, ...]
    more: tuple[tuple[str, str], ...] = ()
    streamed: bool = False
    cut: bool = False
    never: bool = False

    @classmethod
    def of(cls, value: Any, status: int = 200, *, retry_after: str | None = None) -> Self:
        """Return a reply with a JSON value."""
        more = () if retry_after is None else (("retry-after", retry_after),)
        return cls(status, _JSON, (json.dumps(value).encode(),), more)

    @classmethod
    def problem(cls, status: int, message: str, *, retry_after: str | None = None) -> Self:
        """Return an error in OpenAI's format."""
        error = {"message": message, "type": "error", "code": None}
        return cls.of({"error": error}, status, retry_after=retry_after)


def _filtered(_: Heard) -> Reply:
    return Reply.of(_completion(_, Said(""), finish="content_filter"))


def _azure(_: Heard) -> Reply:
    result = {"violence": {"filtered": True, "severity": "high"}}
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": result}
    error = {"code": "content_filter", "message": "filtered", "status": 400, "innererror": inner}
    return Reply.of({"error": error}, 400)


def _refusal_field(heard: Heard) -> Reply:
    value = _completion(heard, Said(""))
    value["choices"][0]["message"] |= {"content": None, "refusal": "I can't help with that."}
    return Reply.of(value)


def _html(_: Heard) -> Reply:
    return Reply(200, "text/html", (b"<html><body>Sign in to go on</body></html>",))


def _half_stream(heard: Heard) -> Reply:
    whole = _stream(heard, Said("Here is the first half of what you asked for, and then it"))
    return whole._replace(parts=whole.parts[: len(whole.parts) // 2], cut=True)


def _cut_body(heard: Heard) -> Reply:
    return Reply.of(_completion(heard, Said("This body is shorter than it claims")))._replace(
        cut=True
    )


def _problem(status: int, message: str) -> Callable[[Heard], Reply]:
    return lambda _: Reply.problem(status, message)


def _slow_down(_: Heard) -> Reply:
    return Reply.problem(429, "too many requests", retry_after="0")


def _body(raw: bytes) -> Callable[[Heard], Reply]:
    return lambda _: Reply(200, _JSON, (raw,))


def _never(_: Heard) -> Reply:
    return Reply(200, _JSON, (), never=True)


_FAULTY: dict[str, Callable[[Heard], Reply]] = {
    "azure-filter": _azure,
    "content-filter": _filtered,
    "cut-body": _cut_body,
    "empty-choices": _body(b'{"object": "chat.completion", "choices": []}'),
    "error-400": _problem(400, "the request cannot be used"),
    "error-401": _problem(401, "the key is wrong"),
    "error-429": _slow_down,
    "error-500": _problem(500, "the model is lost"),
    "error-503": _problem(503, "the model is busy"),
    "half-stream": _half_stream,
    "html": _html,
    "invalid-json": _body(b'{"choices": [{"message": '),
    "no-text": _body(b'{"choices": [{"message": {"role": "assistant"}}]}'),
    "refusal-field": _refusal_field,
    "timeout": _never,
}
# The same faults, but only for the first request with a prompt: `once-error-429`.
_ONCE = "once-"
FAULTS = (*_FAULTY, *(f"{_ONCE}{name}" for name in _FAULTY))


def reply_to(heard: Heard, persona: str, *, fault: str | None, again: bool) -> Reply:
    """Return the reply of a persona; a model name that is a fault causes that fault."""
    named = heard.model if heard.model in FAULTS else fault
    if named is not None and not (again and named.startswith(_ONCE)):
        return _FAULTY[named.removeprefix(_ONCE)](heard)
    said = speak(persona, heard)
    return _stream(heard, said) if heard.stream else Reply.of(_completion(heard, said))


def _completion(heard: Heard, said: Said, finish: str = "stop") -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text, "refusal": None}
    return {
        "id": _id(heard),
        "object": "chat.completion",
        "created": 0,
        "model": heard.model or "demur-testing",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": _usage(heard, said),
    }


def _stream(heard: Heard, said: Said) -> Reply:
    pieces = [said.text[at : at + _PIECE] for at in range(0, len(said.text), _PIECE)]
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": piece}, None) for piece in pieces]
    deltas.append(({}, "stop"))
    head = {"id": _id(heard), "object": "chat.completion.chunk", "model": heard.model}
    chunks: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        for delta, finish in deltas
    ]
    chunks.append({**head, "choices": [], "usage": _usage(heard, said)})
    lines = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    return Reply(200, _EVENTS, (*lines, b"data: [DONE]\n\n"), streamed=True)


def _usage(heard: Heard, said: Said) -> dict[str, int]:
    asked, answered = len(heard.prompt.split()), len(said.text.split())
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
    }


def _id(heard: Heard) -> str:
    return f"chatcmpl-{hashlib.sha256(heard.prompt.encode(errors='replace')).hexdigest()[:12]}"
