"""ADK's contents and responses as plain values, and refusals in its own types."""

import json
from collections.abc import Collection
from copy import deepcopy
from typing import Any

from google.adk.code_executors import BaseCodeExecutor, BuiltInCodeExecutor
from google.adk.code_executors.code_execution_utils import CodeExecutionUtils
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.base_tool import BaseTool
from google.genai.types import BlockedReason, Content, FinishReason, Part
from pydantic_core import to_jsonable_python

from demur.enforce.describe import extract_texts
from demur.enforce.result import CheckResult
from demur.integrations._kit import is_changed_fully

# Responses to ADK's own requests: the model reads only that for input, which is a prompt.
_INPUT_REQUEST = "adk_request_input"
REQUESTS = frozenset({_INPUT_REQUEST, "adk_request_credential", "adk_request_confirmation"})
# Calls of these tools are answers, not actions.
ANSWER_TOOLS = frozenset({"set_model_response", "finish_task"})
_BLOCKED_REASONS = frozenset(one.value for one in BlockedReason)


def list_texts(content: Content | None) -> list[str]:
    """Return the texts of a content, without thoughts."""
    parts = (content and content.parts) or ()
    return [part.text for part in parts if part.text and not part.thought]


def join_texts(content: Content | None) -> str:
    """Return the text of a content as it is shown."""
    return "".join(list_texts(content))


def replace_texts(content: Content | None, text: str) -> Content:
    """Return a content with one text in place of its texts."""
    parts = (content and content.parts) or ()
    others = [part for part in parts if not part.text or part.thought]
    return Content(role=content.role if content else "model", parts=[Part(text=text), *others])


def prompt_text(content: Content | None) -> str:
    """Return the text of a user's message: typed, entered when asked, or of a file."""
    parts = (content and content.parts) or ()
    return "\n".join(filter(None, map(_part_text, parts)))


def is_answer_tool(tool: BaseTool) -> bool:
    """Return whether a tool of ADK only takes the answer; yours may have the same name."""
    return tool.name in ANSWER_TOOLS and type(tool).__module__.startswith("google.adk.")


def change_prompt(content: Content, result: CheckResult) -> Content:
    """Return a user's message as it may go on."""
    if result.changes is None:
        return content
    changed = content.model_copy(
        update={"parts": [_change_part(part, result) for part in content.parts or ()]}
    )
    text = prompt_text(changed)
    if is_changed_fully(result, text):
        return changed
    return Content(role=content.role, parts=[Part(text=result.apply_changes(text))])


def _part_text(part: Part) -> str:
    data, response = part.inline_data, part.function_response
    if response is not None and response.name == _INPUT_REQUEST:
        return extract_texts(to_jsonable(response.response))
    if data is not None and data.data and str(data.mime_type).startswith("text/"):
        return data.data.decode("utf-8", "replace")
    return part.text or ""


def _change_part(part: Part, result: CheckResult) -> Part:
    response = part.function_response
    if response is not None:
        return replace_result(part, result.apply_changes(to_jsonable(response.response)))
    text = _part_text(part)
    changed = result.apply_changes(text)
    new = {"text": changed, "inline_data": None}
    return part if changed == text else part.model_copy(update=new)


def find_new(contents: list[Content]) -> int:
    """Return the position after the model's last content."""
    places = (number for number, one in enumerate(contents, 1) if one.role == "model")
    return max(places, default=0)


def find_attachment(content: Content) -> Content | None:
    """Return what a tool of ADK attached to a request: an artifact, or a resource of MCP."""
    parts = content.parts or []
    if len(parts) < 2 or not (parts[0].text or "").endswith(" is:"):
        return None
    return Content(role="user", parts=parts[1:])


def find_unchecked_input(callback_context: Any, cleared: Collection[str]) -> list[str]:
    """Return what started an agent and was not checked, as what another node of a workflow gave."""
    runs = {"", callback_context.invocation_id}
    given = [
        one.content
        for one in callback_context.session.events
        if one.author == "user" and one.node_info.path and one.invocation_id in runs
    ]
    texts = dict.fromkeys(map(prompt_text, [callback_context.user_content, *given]))
    return [text for text in texts if text and text not in cleared]


def find_code(response: LlmResponse, agent: Any) -> str | None:
    """Return the code of a response that ADK itself would execute."""
    executor = getattr(agent, "code_executor", None)
    if not isinstance(executor, BaseCodeExecutor) or isinstance(executor, BuiltInCodeExecutor):
        return None
    content: Any = deepcopy(response.content)  # which this function changes
    delimiters = executor.code_block_delimiters
    return CodeExecutionUtils.extract_code_and_truncate_content(content, delimiters)


def read_native(response: LlmResponse) -> dict[str, Any] | None:
    """Return why a model ended its response, in Gemini's own form."""
    reason = response.finish_reason
    # LiteLLM's models end with `OTHER` for reasons of their own.
    if reason is not None and not (reason is FinishReason.OTHER and list_texts(response.content)):
        return {"candidates": [{"finishReason": str(reason.value)}]}
    if response.error_code in _BLOCKED_REASONS:
        return {"promptFeedback": {"blockReason": str(response.error_code)}}
    return None


def replace_result(part: Part, value: Any) -> Part:
    """Return a part with another value as the result in it."""
    response, executed = part.function_response, part.code_execution_result
    if response is not None:
        new = response.model_copy(update={"response": value})
        return part.model_copy(update={"function_response": new})
    assert executed is not None
    output = executed.model_copy(update={"output": value})
    return part.model_copy(update={"code_execution_result": output})


def refusal_words(result: CheckResult) -> Content:
    """Return the words of a refusal for a person."""
    return Content(role="model", parts=[Part(text=result.user_text)])


def build_refusal(result: CheckResult, agent: Any) -> LlmResponse:
    """Return a refusal as the response of an agent's model."""
    # The words for a person do not fit the schema of an answer.
    has_schema = getattr(agent, "output_schema", None) is not None
    content = None if has_schema else refusal_words(result)
    response = LlmResponse(content=content, partial=False)
    return response.model_copy(update=describe_refusal(response, result))


def describe_refusal(item: LlmResponse, result: CheckResult) -> dict[str, Any]:
    """Return the fields of an event or response that report a refusal as ADK reports errors."""
    code, line = result.envelope["code"], result.line
    return {"error_code": code, "error_message": line, **add_envelope(item, result)}


def add_envelope(item: LlmResponse, result: CheckResult) -> dict[str, Any]:
    """Return the metadata of an event or response, with the envelope of a refusal."""
    return {"custom_metadata": {**(item.custom_metadata or {}), "refusal": result.envelope}}


async def ask_again(agent: Any, request: LlmRequest, message: str) -> LlmResponse:
    """Return the answer of the model to the same request, with the reason to answer again."""
    asked = Content(role="user", parts=[Part(text=message)])
    again = request.model_copy(update={"contents": [*request.contents, asked]})
    answers = [one async for one in agent.canonical_model.generate_content_async(again)]
    return answers[-1] if answers else LlmResponse()


def to_jsonable(value: Any) -> Any:
    """Return a value as plain JSON; objects without a JSON form become text."""
    return to_jsonable_python(value, fallback=str, bytes_mode="base64")


def to_key(*values: Any) -> str:
    """Return values as one text, to compare them by."""
    return json.dumps(to_jsonable(values), sort_keys=True)
