"""Answers of a model: refused by its provider, by guards, or by the model in its own words."""

import json
from typing import Any

from langchain.agents.middleware.types import ModelResponse
from langchain_core.messages import AIMessage, ToolMessage

from demur.enforce.answers import with_resources
from demur.integrations.langchain.asking import Ask, Asking
from demur.integrations.langchain.messages import declined, refused_answer, text_of
from demur.integrations.langchain.streaming import Watch

__all__ = ["judged", "stopped"]


def judged(response: ModelResponse[Any], watch: Watch) -> Asking[ModelResponse[Any]]:
    """Return the answer, or what takes its place.

    Words of the model that refuse stay as they are, and are told of. A message with tool
    calls is on its way somewhere: it is not searched for such words.
    """
    said = next((one for one in response.result if isinstance(one, AIMessage)), None)
    if said is None:
        return response
    given, text, forms = said, text_of(said.content), _forms(response)
    ruling = yield Ask("model", (said, watch.at), {"prompt": watch.prompt})
    streamed = watch.ruling_on(said.content)
    if ruling.allowed and streamed is not None:
        ruling = streamed
    # Where a stream was clean, it need not be all of the answer, nor how a model reads it.
    read = text if streamed is None else watch.in_blocks
    if ruling.allowed and (read or forms):
        whole = _whole(read or text, forms)
        ruling = yield Ask("answer", (whole, watch.at), {"prompt": watch.prompt})
        said = _helped(said, text, ruling.resources) if ruling.allowed else said
    if not ruling.allowed:
        # A message is shown once: where it was streamed without these words, they come as
        # another one.
        shown = watch.has_streamed and ruling is not streamed
        return ModelResponse(result=[refused_answer(ruling, None if shown else said)])
    if text and not said.tool_calls:
        asked = {"text": text, "prompt": watch.prompt}
        ruling = yield Ask("model", (None, watch.at), asked)
        said = said if ruling.allowed else declined(said, ruling)
    spoken = sum(isinstance(one, AIMessage) for one in response.result)
    return response if said is given and spoken == 1 else _with(response, said)


def stopped(error: Exception, watch: Watch) -> Asking[ModelResponse[Any] | None]:
    """Return what takes the place of an answer that ended in an error; None if nothing does.

    It is the provider's refusal or, where a refused stream left no answer of the form asked
    for, what was said instead.
    """
    ruling = watch.refused
    if ruling is None:
        ruling = yield Ask("model", (error, watch.at), {"prompt": watch.prompt})
    if ruling.allowed:
        return None
    return ModelResponse(result=[refused_answer(ruling, getattr(error, "ai_message", None))])


def _forms(response: ModelResponse[Any]) -> list[Any]:
    """Return the answers that a model gave as calls of the form it was asked for."""
    answered = {one.tool_call_id for one in response.result if isinstance(one, ToolMessage)}
    if not answered:
        return []
    calls = [call for one in response.result for call in getattr(one, "tool_calls", ())]
    return [call["args"] for call in calls if call["id"] in answered]


def _whole(text: str, forms: list[Any]) -> str:
    """Return all of an answer; what is of a given form as JSON, which is read as what it says."""
    whole = [text, *forms] if text else forms
    return json.dumps(whole, ensure_ascii=False, default=str) if forms else text


def _helped(said: AIMessage, text: str, resources: tuple[str, ...]) -> AIMessage:
    """Return the message with the help lines that it must carry and does not yet."""
    lacks = tuple(line for line in resources if line not in text)
    if not lacks:
        return said
    if isinstance(said.content, str):
        return said.model_copy(update={"content": with_resources(text, lacks)})
    block = {"type": "text", "text": with_resources("", lacks)}
    return said.model_copy(update={"content": [*said.content, block]})


def _with(response: ModelResponse[Any], said: AIMessage) -> ModelResponse[Any]:
    """Return the response with this message alone of the model; no other one was judged."""
    others = [one for one in response.result if not isinstance(one, AIMessage)]
    return ModelResponse([said, *others], response.structured_response)
