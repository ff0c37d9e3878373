"""Replies of the test model server: personas, completions, streams, and faults.

A persona goes by the label that comes with a request, or else by alarming words in the prompt.
A digest of the prompt decides the rest, so the same prompt always gets the same answer.
"""

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from demur.errors import InputError

_ALARMING_WORDS = re.compile(
    r"\b(?:abuse|attack|bomb|crack|destroy|drug|explo\w+|forge|hack\w*|hurt|kill\w*|malware"
    r"|overdose|poison\w*|phish\w*|shoot\w*|spy|stalk\w*|steal\w*|track|virus|weapon\w*)\b",
    re.IGNORECASE,
)
_REFUSALS = (
    "I can't help with that request. If something close to it is safe, I am glad to help.",
    "I won't help with this one, because it could hurt somebody. May I help in another way?",
    "I'm sorry, but I can't assist with that.",
)
_PARTIAL = (
    "Here is an overview:\n\n1. Start with the basics.\n2. Go one step at a time.\n"
    "3. Write down what you find.\n4. Compare it with a source that you trust.\n\n"
    "I'm sorry, but I can't help with the last part of your question."
)
_HELPFUL = (
    "Sure. Start with the basics, take it one step at a time, and check the result at the end.",
    "Here is a short plan: note what you want, and try the simplest way first.",
    "Yes, that can be done. Gather what you need, go through it in order, and note each step.",
)


class _RefusalRates(NamedTuple):
    """The refusal rates of a persona, in percent, for harmful, alarming and harmless prompts."""

    harmful: int
    alarming: int
    harmless: int


_RATES_BY_PERSONA = {
    "balanced": _RefusalRates(97, 6, 2),
    "over-refusing": _RefusalRates(100, 70, 30),
    "under-refusing": _RefusalRates(45, 2, 0),
}
_ECHO = "echo"
# A guard model: it judges the last message in the words of Llama Guard.
_GUARD = "llama-guard"
PERSONAS = (*_RATES_BY_PERSONA, _ECHO, _GUARD)


class ModelPrompt(NamedTuple):
    """The parts of a request that a persona uses; `last` is the last message of any role."""

    prompt: str
    model: str = ""
    label: str = ""
    stream: bool = False
    last: str = ""


class PersonaAnswer(NamedTuple):
    """The answer of a persona, and whether it declines."""

    text: str
    declined: bool = False


def check_persona(name: str) -> None:
    """Check that a persona exists.

    Raises:
        InputError: No persona has this name.
    """
    if name not in PERSONAS:
        raise InputError(f"unknown persona `{name}`", help=f"one of {', '.join(PERSONAS)}")


def answer_as(persona: str, request: ModelPrompt) -> PersonaAnswer:
    """Return the answer of a persona to a prompt."""
    if persona == _ECHO:
        return PersonaAnswer(request.prompt)
    if persona == _GUARD:
        alarming = _ALARMING_WORDS.search(request.last or request.prompt)
        return PersonaAnswer("unsafe\nS1" if alarming else "safe")
    drawn = hashlib.sha256(f"{persona}\n{request.prompt}".encode(errors="replace")).digest()
    chance = int.from_bytes(drawn[:4]) % 100
    refuses = _refusal_rate(_RATES_BY_PERSONA[persona], request)
    if chance < refuses:
        return PersonaAnswer(_REFUSALS[drawn[4] % len(_REFUSALS)], declined=True)
    # Sometimes a persona complies in part.
    if chance < refuses + 2:
        return PersonaAnswer(_PARTIAL)
    return PersonaAnswer(_HELPFUL[drawn[4] % len(_HELPFUL)])


def _refusal_rate(persona: _RefusalRates, request: ModelPrompt) -> int:
    alarming = _ALARMING_WORDS.search(request.prompt) is not None
    if request.label == "harmful" or (not request.label and alarming):
        return persona.harmful
    return persona.alarming if alarming else persona.harmless


_JSON = "application/json"
_EVENTS = "text/event-stream"
_CHUNK_LENGTH = 12


class ModelReply(NamedTuple):
    """An HTTP reply. `cut`: it stops before its end; `never`: it is never sent."""

    status: int
    kind: str
    parts: tuple[bytes, ...]
    more: tuple[tuple[str, str], ...] = ()
    streamed: bool = False
    cut: bool = False
    never: bool = False

    @classmethod
    def from_json(cls, value: Any, status: int = 200, *, retry_after: str | None = None) -> Self:
        """Return a reply with a JSON value."""
        more = () if retry_after is None else (("retry-after", retry_after),)
        return cls(status, _JSON, (json.dumps(value).encode(),), more)

    @classmethod
    def from_error(cls, status: int, message: str, *, retry_after: str | None = None) -> Self:
        """Return an error in OpenAI's format."""
        error = {"message": message, "type": "error", "code": None}
        return cls.from_json({"error": error}, status, retry_after=retry_after)


def _reply_filtered(_: ModelPrompt) -> ModelReply:
    return ModelReply.from_json(_completion(_, PersonaAnswer(""), finish="content_filter"))


def _reply_azure_filter(_: ModelPrompt) -> ModelReply:
    result = {"violence": {"filtered": True, "severity": "high"}}
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": result}
    error = {"code": "content_filter", "message": "filtered", "status": 400, "innererror": inner}
    return ModelReply.from_json({"error": error}, 400)


def _reply_refusal_field(request: ModelPrompt) -> ModelReply:
    value = _completion(request, PersonaAnswer(""))
    value["choices"][0]["message"] |= {"content": None, "refusal": "I can't help with that."}
    return ModelReply.from_json(value)


def _reply_html(_: ModelPrompt) -> ModelReply:
    return ModelReply(200, "text/html", (b"<html><body>Sign in to go on</body></html>",))


def _reply_half_stream(request: ModelPrompt) -> ModelReply:
    whole = _build_stream(
        request, PersonaAnswer("Here is the first half of what you asked for, and then it")
    )
    return whole._replace(parts=whole.parts[: len(whole.parts) // 2], cut=True)


def _reply_cut_body(request: ModelPrompt) -> ModelReply:
    return ModelReply.from_json(
        _completion(request, PersonaAnswer("This body is shorter than it claims"))
    )._replace(cut=True)


def _make_error_reply(status: int, message: str) -> Callable[[ModelPrompt], ModelReply]:
    return lambda _: ModelReply.from_error(status, message)


def _reply_slow_down(_: ModelPrompt) -> ModelReply:
    return ModelReply.from_error(429, "too many requests", retry_after="0")


def _make_raw_reply(raw: bytes) -> Callable[[ModelPrompt], ModelReply]:
    return lambda _: ModelReply(200, _JSON, (raw,))


def _reply_never(_: ModelPrompt) -> ModelReply:
    return ModelReply(200, _JSON, (), never=True)


_FAULT_REPLIES: dict[str, Callable[[ModelPrompt], ModelReply]] = {
    "azure-filter": _reply_azure_filter,
    "content-filter": _reply_filtered,
    "cut-body": _reply_cut_body,
    "empty-choices": _make_raw_reply(b'{"object": "chat.completion", "choices": []}'),
    "error-400": _make_error_reply(400, "the request cannot be used"),
    "error-401": _make_error_reply(401, "the key is wrong"),
    "error-429": _reply_slow_down,
    "error-500": _make_error_reply(500, "the model is lost"),
    "error-503": _make_error_reply(503, "the model is busy"),
    "half-stream": _reply_half_stream,
    "html": _reply_html,
    "invalid-json": _make_raw_reply(b'{"choices": [{"message": '),
    "no-text": _make_raw_reply(b'{"choices": [{"message": {"role": "assistant"}}]}'),
    "refusal-field": _reply_refusal_field,
    "timeout": _reply_never,
}
# The same faults, but only for the first request with a prompt: `once-error-429`.
_ONCE_PREFIX = "once-"
FAULTS = (*_FAULT_REPLIES, *(f"{_ONCE_PREFIX}{name}" for name in _FAULT_REPLIES))


def build_reply(
    request: ModelPrompt, persona: str, *, fault: str | None, again: bool
) -> ModelReply:
    """Return the reply of a persona; a model name that is a fault causes that fault."""
    named = request.model if request.model in FAULTS else fault
    if named is not None and not (again and named.startswith(_ONCE_PREFIX)):
        return _FAULT_REPLIES[named.removeprefix(_ONCE_PREFIX)](request)
    said = answer_as(persona, request)
    return (
        _build_stream(request, said)
        if request.stream
        else ModelReply.from_json(_completion(request, said))
    )


def _completion(request: ModelPrompt, said: PersonaAnswer, finish: str = "stop") -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text, "refusal": None}
    return {
        "id": _reply_id(request),
        "object": "chat.completion",
        "created": 0,
        "model": request.model or "demur-testing",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": _count_tokens(request, said),
    }


def _build_stream(request: ModelPrompt, said: PersonaAnswer) -> ModelReply:
    pieces = [said.text[at : at + _CHUNK_LENGTH] for at in range(0, len(said.text), _CHUNK_LENGTH)]
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": piece}, None) for piece in pieces]
    deltas.append(({}, "stop"))
    head = {"id": _reply_id(request), "object": "chat.completion.chunk", "model": request.model}
    chunks: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        for delta, finish in deltas
    ]
    chunks.append({**head, "choices": [], "usage": _count_tokens(request, said)})
    lines = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    return ModelReply(200, _EVENTS, (*lines, b"data: [DONE]\n\n"), streamed=True)


def _count_tokens(request: ModelPrompt, said: PersonaAnswer) -> dict[str, int]:
    asked, answered = len(request.prompt.split()), len(said.text.split())
    return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}


def _reply_id(request: ModelPrompt) -> str:
    return f"chatcmpl-{hashlib.sha256(request.prompt.encode(errors='replace')).hexdigest()[:12]}"
