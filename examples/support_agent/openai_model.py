"""A real model for the support agent, behind an API of OpenAI's form.

    python openai_model.py gpt-5 ada "My order A-1 never came. I want my money back."

It needs the package `openai` and a key in OPENAI_API_KEY. OPENAI_BASE_URL names another server.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from openai import OpenAI
from support_agent import Desk, Message, SupportAgent, ToolCall

from demur import open_enforcer

SYSTEM: Any = {
    "role": "system",
    "content": "You work for the support desk of a shop. Pay back an order if the customer asks for"
    " it. If a tool answers REFUSED, tell the customer why in kind words, and try no other way.",
}
WORDS = {"find_order": "Say what an order cost.", "refund": "Pay an order back."}
ORDER = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "description": text, "parameters": ORDER}}
    for name, text in WORDS.items()
]


def to_chat(messages: Sequence[Message]) -> Iterator[Any]:
    """Yield the messages as the API takes them: each answer of a tool after its call."""
    for number, one in enumerate(messages):
        if one["role"] != "tool":
            yield {"role": "user", "content": one["content"]}
            continue
        function = {"name": one["name"], "arguments": one["arguments"]}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        yield {"role": "assistant", "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": call["id"], "content": one["content"]}


class OpenAIModel:
    """Asks a model of an API."""

    def __init__(self, client: OpenAI, name: str) -> None:
        self.client = client
        self.name = name

    def __call__(self, messages: Sequence[Message]) -> ToolCall | str:
        """Return the call that the model wants to make, or its answer."""
        reply = self.client.chat.completions.create(
            model=self.name,
            messages=[SYSTEM, *to_chat(messages)],
            tools=TOOLS,
            parallel_tool_calls=False,
        )
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content or message.refusal or ""
        call: Any = message.tool_calls[0]
        return ToolCall(call.function.name, json.loads(call.function.arguments))


def main() -> None:
    """Answer one message."""
    name, customer, text = sys.argv[1:]
    with open_enforcer("demur.toml") as enforcer:
        agent = SupportAgent(enforcer, OpenAIModel(OpenAI(), name), Desk(Path("desk.json")))
        print(agent.answer(customer, text))


if __name__ == "__main__":
    main()
