"""A provider of LiteLLM's that says what it was told to, whole or in pieces."""

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Any, cast

# Or else it asks the network for prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from litellm.llms.custom_llm import CustomLLM
from litellm.types.utils import ModelResponse

from demur.testing.scenarios import AnswerTurn, ModelTurn, ToolTurn

__all__ = ["MODEL", "ScriptedModel", "asked_of", "response_of"]

MODEL = "scripted/any"


class _NoGateway:
    """LiteLLM imports its gateway to MCP for every response; without `mcp`, it has none."""

    @staticmethod
    def should_use_litellm_mcp_gateway(tools: Any = None) -> bool:
        """Return false: there is none."""
        del tools
        return False


if find_spec("mcp") is None:
    _gateway: Any = ModuleType("litellm.responses.mcp.litellm_proxy_mcp_handler")
    _gateway.LiteLLM_Proxy_MCP_Handler = _NoGateway
    sys.modules[_gateway.__name__] = _gateway


class ScriptedModel(CustomLLM):
    """A provider that says what it was told to; `heard` keeps what it was sent, call by call.

    `read` counts the pieces that were taken of its streams.
    """

    def __init__(self, turns: Sequence[ModelTurn | ModelResponse | Exception]) -> None:
        super().__init__()
        self.turns = turns
        self.heard: list[list[dict[str, Any]]] = []
        self.models: list[str] = []
        self.read = 0

    def _next(self, given: dict[str, Any]) -> ModelTurn | ModelResponse:
        turn = self.turns[len(self.heard)]
        self.heard.append(list(given["messages"]))
        self.models.append(given["model"])
        if isinstance(turn, Exception):
            raise turn
        return turn

    def completion(self, *_args: Any, **given: Any) -> ModelResponse:
        """Return the next answer."""
        turn = self._next(given)
        return turn if isinstance(turn, ModelResponse) else response_of(turn, len(self.heard))

    async def acompletion(self, *_args: Any, **given: Any) -> ModelResponse:
        """Return the next answer."""
        return self.completion(**given)

    def streaming(self, *_args: Any, **given: Any) -> Iterator[Any]:
        """Yield the next answer in its pieces."""
        turn = self._next(given)
        pieces = turn.pieces if isinstance(turn, AnswerTurn) else ()
        for piece in pieces:
            self.read += 1
            yield _piece(piece)
        yield _piece("", finish="stop" if pieces else "content_filter")

    def astreaming(self, *_args: Any, **given: Any) -> Any:
        """Return the next answer in its pieces."""
        return _awaited(self.streaming(**given))


async def _awaited(pieces: Iterator[Any]) -> AsyncIterator[Any]:
    for piece in pieces:
        yield piece


def _piece(text: str, finish: str = "") -> dict[str, Any]:
    return {
        "text": text,
        "is_finished": bool(finish),
        "finish_reason": finish,
        "usage": None,
        "index": 0,
        "tool_use": None,
    }


def response_of(turn: ModelTurn, number: int = 1) -> ModelResponse:
    """Return what a provider answers in a turn."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    reason = "stop"
    if isinstance(turn, AnswerTurn):
        message["content"] = turn.text
    elif isinstance(turn, ToolTurn):
        reason = "tool_calls"
        message["tool_calls"] = [
            {
                "id": f"call-{number}-{place}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(dict(given))},
            }
            for place, (name, given) in enumerate(turn.calls)
        ]
    else:
        reason = "content_filter"
    return ModelResponse(choices=[{"index": 0, "finish_reason": reason, "message": message}])


def asked_of(model: CustomLLM) -> None:
    """Let LiteLLM ask this model."""
    litellm.custom_provider_map = [{"provider": "scripted", "custom_handler": model}]
    cast("Any", litellm.utils).custom_llm_setup()
