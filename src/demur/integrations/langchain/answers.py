"""Answers of a model: refused by its provider, by guards, or by the model in its own words."""

import json
from typing import Any

from langchain.agents.middleware.types import ModelResponse
from langchain_core.messages import AIMessage, ToolMessage

from demur.gate.answers import with_resources
from demur.integrations.langchain.asking import Ask, Asking
from demur.integrations.langchain.messages import declined, refused_answer, text_of
from demur.integrations.langchain.streaming import Watch

__all__ = ["judged"]


def judged(response: ModelResponse[Any], watch: Watch) -> Asking[ModelResponse[Any]]:
    """Return the answer, or what takes its place.

    Words of the model that refuse stay as they are, and are told of. A message with tool
    calls is on its way somewhere: it is not searched for such words.
    """
    said = next((one for one in response.result if isinstance(one, AIMessage)), None)
    if said is None:
        return response
    ruling = yield Ask("model", (said, watch.at), {"prompt": watch.prompt})
    text, form = text_of(said.content), _form(response)
    if ruling.allowed and (text or form):
        streamed = None if form else watch.ruling_on(text)
        beside = {"prompt": watch.prompt}
        ruling = streamed or (yield Ask("answer", (f"{text}{form}", watch.at), beside))
        if ruling.allowed and streamed is None:
            said = _helped(said, text, ruling.resources)
    if not ruling.allowed:
        # A message is shown once: where it was streamed without these words, they come as
        # another one.
        shown = watch.has_streamed and ruling is not watch.ruling_on(text)
        return ModelResponse(result=[refused_answer(ruling, None if shown else said)])
    if text and not said.tool_calls:
        asked = {"text": text, "prompt": watch.prompt}
        ruling = yield Ask("model", (None, watch.at), asked)
        said = said if ruling.allowed else declined(said, ruling)
    return _with(response, said)


def _form(response: ModelResponse[Any]) -> str:
    """Return the answer that a model gave as a call of the form it was asked for, as JSON."""
    answered = {one.tool_call_id for one in response.result if isinstance(one, ToolMessage)}
    calls = [call for one in response.result for call in getattr(one, "tool_calls", ())]
    forms = [call["args"] for call in calls if call["id"] in answered]
    return "\n".join(json.dumps(form, ensure_ascii=False, default=str) for form in forms)


def _helped(said: AIMessage, text: str, resources: tuple[str, ...]) -> AIMessage:
    """Return the message with the help lines that it must carry."""
    if not resources:
        return said
    if isinstance(said.content, str):
        return said.model_copy(update={"content": with_resources(text, resources)})
    block = {"type": "text", "text": with_resources("", resources)}
    return said.model_copy(update={"content": [*said.content, block]})


def _with(response: ModelResponse[Any], said: AIMessage) -> ModelResponse[Any]:
    result = [said if isinstance(one, AIMessage) else one for one in response.result]
    return ModelResponse(result=result, structured_response=response.structured_response)
