"""LiteLLM's own proxy in a process of its own: `python litellm_proxy.py CONFIG < requests`.

It starts the proxy by its configuration, sends it the requests on standard input (a JSON list of
path and body), and prints the answers as a JSON list of status, content type and text.
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any, cast

# Or else it asks the network for prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import httpx
import litellm
from litellm.llms.custom_llm import CustomLLM

KEY = "sk-0123456789abcdef0123456789abcdef"


class CallingModel(CustomLLM):
    """A provider that streams one tool call: the command is the model's name."""

    def astreaming(self, *_: Any, **given: Any) -> Any:
        """Return a tool call in its pieces."""
        return self._pieces(str(given["model"]))

    async def _pieces(self, command: str) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        arguments = json.dumps({"command": command})
        call = {"id": "c1", "type": "function", "index": 0}
        called = {**call, "function": {"name": "bash", "arguments": arguments}}
        piece = {"text": "", "is_finished": False, "finish_reason": "", "usage": None, "index": 0}
        yield {**piece, "tool_use": called}
        yield {**piece, "is_finished": True, "finish_reason": "tool_calls", "tool_use": None}


async def answer_requests(config: str, requests: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers of the proxy to some requests, one after the other."""
    os.environ["CONFIG_FILE_PATH"] = config
    # It reads the environment when it is imported.
    app = cast("Any", import_module("litellm.proxy.proxy_server")).app
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    headers = {"authorization": f"Bearer {KEY}"}
    answers = []
    litellm.custom_provider_map = [{"provider": "calling", "custom_handler": CallingModel()}]
    cast("Any", litellm.utils).custom_llm_setup()
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=transport, base_url="http://proxy", headers=headers, timeout=60
        ) as client,
    ):
        for path, body in requests:
            answer = await client.post(path, json=body)
            kind = answer.headers["content-type"]
            answers.append({"status": answer.status_code, "kind": kind, "text": answer.text})
    return answers


if __name__ == "__main__":
    logging.disable()
    found = asyncio.run(answer_requests(sys.argv[1], json.load(sys.stdin)))
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    # LiteLLM leaves threads behind.
    os._exit(0)
