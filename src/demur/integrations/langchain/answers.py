"""Answers of a model: refused by its provider, by guards, or by the model in its own words."""

import json
from typing import Any

from langchain.agents.middleware.types import ModelResponse
from langchain_core.messages import AIMessage, ToolMessage

from demur.enforce.answers import append_resources
from demur.integrations.langchain.asking import EnforcerCheck, HookSteps
from demur.integrations.langchain.messages import mark_declined, build_refusal_answer, content_text
from demur.integrations.langchain.streaming import ModelWatch

__all__ = ["check_answer", "answer_after_error"]


def check_answer(response: ModelResponse[Any], watch: ModelWatch) -> HookSteps[ModelResponse[Any]]:
    """Check the answer, and return it or its replacement.

    If the model refuses in its own words, the message keeps them and gets the refusal as
    metadata. A message with tool calls is not searched for refusals.
    """
    said = next((one for one in response.result if isinstance(one, AIMessage)), None)
    if said is None:
        return response
    given, text, forms = said, content_text(said.content), _structured_answers(response)
    ruling = yield EnforcerCheck("model", (said, watch.context), {"prompt": watch.prompt})
    streamed = watch.result_for(said.content)
    if ruling.allowed and streamed is not None:
        ruling = streamed
    # A clean stream may lack parts of the answer, or join blocks that a model reads apart.
    read = text if streamed is None else watch.text_by_block
    if ruling.allowed and (read or forms):
        whole = _join_answer(read or text, forms)
        ruling = yield EnforcerCheck("answer", (whole, watch.context), {"prompt": watch.prompt})
        said = _add_resources(said, text, ruling.resources) if ruling.allowed else said
    if not ruling.allowed:
        # A streamed message cannot be replaced, so the refusal becomes a message of its own.
        shown = watch.has_streamed and ruling is not streamed
        return ModelResponse(result=[build_refusal_answer(ruling, None if shown else said)])
    if text and not said.tool_calls:
        asked = {"text": text, "prompt": watch.prompt}
        ruling = yield EnforcerCheck("model", (None, watch.context), asked)
        said = said if ruling.allowed else mark_declined(said, ruling)
    spoken = sum(isinstance(one, AIMessage) for one in response.result)
    return response if said is given and spoken == 1 else _keep_only(response, said)


def answer_after_error(error: Exception, watch: ModelWatch) -> HookSteps[ModelResponse[Any] | None]:
    """Return the refusal for a model call that raised; None if the error is no refusal.

    The provider may have refused by an error, or a refused stream may have left no structured
    answer.
    """
    ruling = watch.refusal
    if ruling is None:
        ruling = yield EnforcerCheck("model", (error, watch.context), {"prompt": watch.prompt})
    if ruling.allowed:
        return None
    return ModelResponse(result=[build_refusal_answer(ruling, getattr(error, "ai_message", None))])


def _structured_answers(response: ModelResponse[Any]) -> list[Any]:
    """Return the arguments of calls by which a model gave structured answers."""
    answered = {one.tool_call_id for one in response.result if isinstance(one, ToolMessage)}
    if not answered:
        return []
    calls = [call for one in response.result for call in getattr(one, "tool_calls", ())]
    return [call["args"] for call in calls if call["id"] in answered]


def _join_answer(text: str, forms: list[Any]) -> str:
    """Return the whole answer as text; structured answers as JSON."""
    whole = [text, *forms] if text else forms
    return json.dumps(whole, ensure_ascii=False, default=str) if forms else text


def _add_resources(said: AIMessage, text: str, resources: tuple[str, ...]) -> AIMessage:
    """Return the message with those help lines that it lacks."""
    lacks = tuple(line for line in resources if line not in text)
    if not lacks:
        return said
    if isinstance(said.content, str):
        return said.model_copy(update={"content": append_resources(text, lacks)})
    block = {"type": "text", "text": append_resources("", lacks)}
    return said.model_copy(update={"content": [*said.content, block]})


def _keep_only(response: ModelResponse[Any], said: AIMessage) -> ModelResponse[Any]:
    """Return the response with this model message only; other model messages are unchecked."""
    others = [one for one in response.result if not isinstance(one, AIMessage)]
    return ModelResponse([said, *others], response.structured_response)
