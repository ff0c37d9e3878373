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
    """Check the answer, and return it or its replacement.

    If the model refuses in its own words, the message keeps them and gets the refusal as
    metadata. A message with tool calls is not searched for refusals.
    """
    said = next((one for one in response.result if isinstance(one, AIMessage)), None)
    if said is None:
        return response
    given, text, forms = said, text_of(said.content), _forms(response)
    ruling = yield Ask("model", (said, watch.at), {"prompt": watch.prompt})
    streamed = watch.ruling_on(said.content)
    if ruling.allowed and streamed is not None:
        ruling = streamed
    # A clean stream may lack parts of the answer, or join blocks that a model reads apart.
    read = text if streamed is None else watch.in_blocks
    if ruling.allowed and (read or forms):
        whole = _whole(read or text, forms)
        ruling = yield Ask("answer", (whole, watch.at), {"prompt": watch.prompt})
        said = _helped(said, text, ruling.resources) if ruling.allowed else said
    if not ruling.allowed:
        # A streamed message cannot be replaced, so the refusal becomes a message of its own.
        shown = watch.has_streamed and ruling is not streamed
        return ModelResponse(result=[refused_answer(ruling, None if shown else said)])
    if text and not said.tool_calls:
        asked = {"text": text, "prompt": watch.prompt}
        ruling = yield Ask("model", (None, watch.at), asked)
        said = said if ruling.allowed else declined(said, ruling)
    spoken = sum(isinstance(one, AIMessage) for one in response.result)
    return response if said is given and spoken == 1 else _with(response, said)


def stopped(error: Exception, watch: Watch) -> Asking[ModelResponse[Any] | None]:
    """Return the refusal for a model call that raised; None if the error is no refusal.

    The provider may have refused by an error, or a refused stream may have left no structured
    answer.
    """
    ruling = watch.refused
    if ruling is None:
        ruling = yield Ask("model", (error, watch.at), {"prompt": watch.prompt})
    if ruling.allowed:
        return None
    return ModelResponse(result=[refused_answer(ruling, getattr(error, "ai_message", None))])


def _forms(response: ModelResponse[Any]) -> list[Any]:
    """Return the arguments of calls by which a model gave structured answers."""
    answered = {one.tool_call_id for one in response.result if isinstance(one, ToolMessage)}
    if not answered:
        return []
    calls = [call for one in response.result for call in getattr(one, "tool_calls", ())]
    return [call["args"] for call in calls if call["id"] in answered]


def _whole(text: str, forms: list[Any]) -> str:
    """Return the whole answer as text; structured answers as JSON."""
    whole = [text, *forms] if text else forms
    return json.dumps(whole, ensure_ascii=False, default=str) if forms else text


def _helped(said: AIMessage, text: str, resources: tuple[str, ...]) -> AIMessage:
    """Return the message with those help lines that it lacks."""
    lacks = tuple(line for line in resources if line not in text)
    if not lacks:
        return said
    if isinstance(said.content, str):
        return said.model_copy(update={"content": with_resources(text, lacks)})
    block = {"type": "text", "text": with_resources("", lacks)}
    return said.model_copy(update={"content": [*said.content, block]})


def _with(response: ModelResponse[Any], said: AIMessage) -> ModelResponse[Any]:
    """Return the response with this model message only; other model messages are unchecked."""
    others = [one for one in response.result if not isinstance(one, AIMessage)]
    return ModelResponse([said, *others], response.structured_response)
