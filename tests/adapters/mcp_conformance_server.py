"""An MCP server with what the public conformance scenarios ask for, on the SDK's own transport.

Run it: `python mcp_conformance_server.py PORT`, or `stdio` instead of a port.
"""

import asyncio
import hashlib
import sys
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

__all__ = ["build_server"]

PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8"
    "z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_PAUSE_S = 0.02
_RETRY_MS = 200


class KeptEvents(EventStore):
    """The events of all streams, for clients that come back."""

    def __init__(self) -> None:
        self._events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        """Keep an event, and return its id."""
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        """Send the later events of the same stream."""
        if not last_event_id.isdigit() or not 0 < int(last_event_id) <= len(self._events):
            return None
        stream_id = self._events[int(last_event_id) - 1][0]
        for number, (owner, message) in enumerate(self._events, 1):
            if number > int(last_event_id) and owner == stream_id and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream_id


def text(words: str) -> dict[str, Any]:
    """Return a result of words."""
    return {"content": [{"type": "text", "text": words}]}


def _resource(uri: str, mime: str, words: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": words}}


_IMAGE = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
_RESULTS: dict[str, dict[str, Any]] = {
    "test_simple_text": text("This is a simple text response for testing."),
    "test_image_content": {"content": [_IMAGE]},
    "test_audio_content": {"content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}]},
    "test_embedded_resource": {
        "content": [_resource("test://embedded-resource", "text/plain", "An embedded resource.")]
    },
    "test_multiple_content_types": {
        "content": [
            {"type": "text", "text": "Multiple content types test:"},
            _IMAGE,
            _resource("test://mixed-content-resource", "application/json", '{"value": 1}'),
        ]
    },
    "test_error_handling": {
        **text("This tool intentionally returns an error for testing"),
        "isError": True,
    },
    "json_schema_2020_12_tool": text("a person"),
    "test_headers": text("the headers fit"),
}
_FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def _elicit(message: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    params = {"message": message, "requestedSchema": schema or _FORM}
    return {"method": "elicitation/create", "params": params}


def _sample(words: str) -> dict[str, Any]:
    asked = {"role": "user", "content": {"type": "text", "text": words}}
    return {
        "method": "sampling/createMessage",
        "params": {"messages": [asked], "maxTokens": 50},
    }


_ROOTS = {"method": "roots/list", "params": {}}
# Tools that need an answer of the client first: its name, and whether a state goes with it.
_QUESTIONS: dict[str, tuple[dict[str, Any], bool]] = {
    "test_input_required_result_elicitation": ({"user_name": _elicit("What is your name?")}, False),
    "test_input_required_result_sampling": (
        {"capital_question": _sample("What is the capital of France?")},
        False,
    ),
    "test_input_required_result_list_roots": ({"client_roots": _ROOTS}, False),
    "test_input_required_result_request_state": ({"confirm": _elicit("Please confirm")}, True),
    "test_input_required_result_tampered_state": ({"confirm": _elicit("Please confirm")}, True),
    "test_input_required_result_multiple_inputs": (
        {
            "user_name": _elicit("What is your name?"),
            "greeting": _sample("Generate a greeting"),
            "client_roots": _ROOTS,
        },
        True,
    ),
}
_DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
}
_NAMED = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
_ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": _NAMED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
        },
        "titledMulti": {"type": "array", "items": {"anyOf": _NAMED}},
    },
}
_SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "json_schema_2020_12_tool": _SCHEMA_2020,
    "test_sampling": {"type": "object", "properties": {"prompt": {"type": "string"}}},
    "test_elicitation": {"type": "object", "properties": {"message": {"type": "string"}}},
    "test_headers": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
}
_OTHER_TOOLS = (
    *("test_tool_with_logging", "test_tool_with_progress", "test_reconnection"),
    *("test_sampling", "test_elicitation", "test_elicitation_sep1034_defaults"),
    *("test_elicitation_sep1330_enums", "test_missing_capability", "test_logging_tool"),
    *("test_streaming_elicitation", "test_trigger_tool_change", "test_trigger_prompt_change"),
    *("test_input_required_result_capabilities", "test_input_required_result_multi_round"),
)
_READABLE: dict[str, dict[str, Any]] = {
    "test://static-text": {"mimeType": "text/plain", "text": "The static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PICTURE},
    "test://watched-resource": {"mimeType": "text/plain", "text": "The watched resource."},
}
_PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


def _sign(name: str) -> str:
    """Return the state that belongs to a tool."""
    return hashlib.sha256(f"state of {name}".encode()).hexdigest()


def _ask(questions: dict[str, Any], state: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"resultType": "input_required", "inputRequests": questions}
    return found if state is None else {**found, "requestState": state}


def _answers(params: Any) -> dict[str, Any]:
    raw = params.input_responses or {}
    return {name: getattr(one, "root", one) for name, one in raw.items()}


def _ask_until_answered(
    name: str, params: Any, questions: dict[str, Any], *, stateful: bool
) -> dict[str, Any]:
    given = _answers(params)
    if stateful and params.request_state not in {None, _sign(name)}:
        raise MCPError(types.INVALID_PARAMS, "the state was changed")
    missing = any(key not in given for key in questions)
    unusable = any(
        question["method"] == "elicitation/create" and not getattr(given.get(key), "action", None)
        for key, question in questions.items()
    )
    if missing or unusable or (stateful and params.request_state is None):
        return _ask(questions, _sign(name) if stateful else None)
    return text(f"state-ok: {given}")


class Everything:
    """The handlers of the server."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()

    async def list_tools(self, _ctx: Any, _params: Any) -> Any:
        """Return all tools."""
        names = [*_RESULTS, *_QUESTIONS, *_OTHER_TOOLS]
        tools = [
            {
                "name": name,
                "description": f"Does what the scenario {name} expects.",
                "inputSchema": _SCHEMAS.get(name, {"type": "object"}),
            }
            for name in names
        ]
        return {"tools": tools}

    async def call_tool(self, ctx: Any, params: Any) -> Any:
        """Return what a tool returns."""
        name = params.name
        if name in _RESULTS:
            return _RESULTS[name]
        if name in _QUESTIONS:
            questions, stateful = _QUESTIONS[name]
            return _ask_until_answered(name, params, questions, stateful=stateful)
        handler = getattr(self, f"_{name}", None)
        if handler is None:
            raise MCPError(types.INVALID_PARAMS, f"unknown tool: {name}")
        return await handler(ctx, params)

    async def _test_tool_with_logging(self, ctx: Any, _params: Any) -> Any:
        for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)
            await asyncio.sleep(_PAUSE_S)
        return text("Tool with logging executed successfully")

    _test_logging_tool = _test_tool_with_logging

    async def _test_tool_with_progress(self, ctx: Any, _params: Any) -> Any:
        for done in (0, 50, 100):
            await ctx.session.report_progress(done, 100, f"Completed step {done} of 100")
            await asyncio.sleep(_PAUSE_S)
        return text("done")

    async def _test_reconnection(self, ctx: Any, _params: Any) -> Any:
        if ctx.close_sse_stream is not None:
            await ctx.close_sse_stream()
        await asyncio.sleep(_PAUSE_S)
        return text("Reconnection test completed")

    async def _test_sampling(self, ctx: Any, params: Any) -> Any:
        asked = types.SamplingMessage(
            role="user",
            content=types.TextContent(type="text", text=str(params.arguments["prompt"])),
        )
        said = await ctx.session.create_message(
            messages=[asked], max_tokens=100, related_request_id=ctx.request_id
        )
        return text(f"LLM response: {said.content.text}")

    async def _elicited(self, ctx: Any, message: str, schema: dict[str, Any]) -> Any:
        said = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
        return text(f"Elicitation completed: action={said.action}, content={said.content}")

    async def _test_elicitation(self, ctx: Any, params: Any) -> Any:
        return await self._elicited(ctx, str(params.arguments["message"]), _FORM)

    async def _test_elicitation_sep1034_defaults(self, ctx: Any, _params: Any) -> Any:
        return await self._elicited(ctx, "Please review the defaults", _DEFAULTS)

    async def _test_elicitation_sep1330_enums(self, ctx: Any, _params: Any) -> Any:
        return await self._elicited(ctx, "Please select options", _ENUMS)

    async def _test_missing_capability(self, ctx: Any, _params: Any) -> Any:
        if "sampling" not in _capabilities(ctx):
            data: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
            code = types.MISSING_REQUIRED_CLIENT_CAPABILITY
            raise MCPError(code, "the client cannot sample", data)
        return text("the client can sample")

    async def _test_streaming_elicitation(self, ctx: Any, params: Any) -> Any:
        await ctx.session.report_progress(50, 100)
        questions = {"user_name": _elicit("What is your name?")}
        return _ask_until_answered("streaming", params, questions, stateful=False)

    async def _test_trigger_tool_change(self, ctx: Any, _params: Any) -> Any:
        await self.bus.publish(ToolsListChanged())
        await ctx.session.send_tool_list_changed()
        return text("tools changed")

    async def _test_trigger_prompt_change(self, ctx: Any, _params: Any) -> Any:
        await self.bus.publish(PromptsListChanged())
        await ctx.session.send_prompt_list_changed()
        return text("prompts changed")

    async def _test_input_required_result_capabilities(self, ctx: Any, params: Any) -> Any:
        able = _capabilities(ctx)
        possible = {
            "elicitation": ("name", _elicit("What is your name?")),
            "sampling": ("words", _sample("Say hello")),
            "roots": ("roots", _ROOTS),
        }
        questions = dict(question for need, question in possible.items() if need in able)
        if not questions:
            return text("nothing can be asked")
        return _ask_until_answered(params.name, params, questions, stateful=False)

    async def _test_input_required_result_multi_round(self, _ctx: Any, params: Any) -> Any:
        given = _answers(params)
        if "step2" in given and params.request_state == _sign("2"):
            return text("both steps are done")
        if "step1" in given and params.request_state == _sign("1"):
            return _ask({"step2": _elicit("Step 2: What is your favorite color?")}, _sign("2"))
        return _ask({"step1": _elicit("Step 1: What is your name?")}, _sign("1"))

    async def list_resources(self, _ctx: Any, _params: Any) -> Any:
        """Return the resources."""
        entries = [
            {"uri": uri, "name": uri[7:], "mimeType": one["mimeType"]}
            for uri, one in _READABLE.items()
        ]
        return {"resources": entries}

    async def list_templates(self, _ctx: Any, _params: Any) -> Any:
        """Return the template."""
        template = {"uriTemplate": "test://template/{id}/data", "name": "template"}
        return {"resourceTemplates": [{**template, "mimeType": "application/json"}]}

    async def read_resource(self, _ctx: Any, params: Any) -> Any:
        """Return a resource."""
        uri = str(params.uri)
        if uri in _READABLE:
            return {"contents": [{"uri": uri, **_READABLE[uri]}]}
        if uri.startswith("test://template/"):
            words = f'{{"id": "{uri.split("/")[3]}", "templateTest": true}}'
            return {"contents": [{"uri": uri, "mimeType": "application/json", "text": words}]}
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})

    async def list_prompts(self, _ctx: Any, _params: Any) -> Any:
        """Return the prompts."""
        prompts = [
            {
                "name": name,
                "description": f"A prompt of the scenario {name}.",
                "arguments": [{"name": one, "required": True} for one in arguments],
            }
            for name, arguments in _PROMPTS.items()
        ]
        return {"prompts": prompts}

    async def get_prompt(self, _ctx: Any, params: Any) -> Any:
        """Return a prompt."""
        name, given = params.name, params.arguments or {}
        if name == "test_input_required_result_prompt" and "user_context" not in _answers(params):
            return _ask({"user_context": _elicit("What context should the prompt use?")})
        words = {"type": "text", "text": f"A prompt for testing: {' '.join(given.values())}"}
        content: list[dict[str, Any]] = [words]
        if name == "test_prompt_with_image":
            content = [_IMAGE, words]
        elif name == "test_prompt_with_embedded_resource":
            content = [_resource(given["resourceUri"], "text/plain", "Embedded."), words]
        return {"messages": [{"role": "user", "content": one} for one in content]}

    async def complete(self, _ctx: Any, _params: Any) -> Any:
        """Complete nothing."""
        return {"completion": {"values": [], "total": 0, "hasMore": False}}

    async def accept(self, _ctx: Any, _params: Any) -> Any:
        """Accept a request that changes nothing."""
        return {}


def _capabilities(ctx: Any) -> dict[str, Any]:
    meta = (ctx.params or {}).get("_meta") or {}
    able = meta.get(CAPABILITIES_KEY) if isinstance(meta, dict) else None
    return able if isinstance(able, dict) else {}


_CACHEABLE = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}
)


def _completing(handler: Any) -> Any:
    """Return a handler that adds to a result what newer clients expect."""

    async def complete(ctx: Any, params: Any) -> Any:
        result = await handler(ctx, params)
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return result
        hints = {"ttlMs": 1000, "cacheScope": "private"} if ctx.method in _CACHEABLE else {}
        return {"resultType": "complete", **hints, **result}

    return complete


def build_server() -> Server[Any]:
    """Return the server."""
    own = Everything()
    return Server(
        "conformance",
        version="1.0.0",
        on_list_tools=_completing(own.list_tools),
        on_call_tool=_completing(own.call_tool),
        on_list_resources=_completing(own.list_resources),
        on_list_resource_templates=_completing(own.list_templates),
        on_read_resource=_completing(own.read_resource),
        on_subscribe_resource=_completing(own.accept),
        on_unsubscribe_resource=_completing(own.accept),
        on_subscriptions_listen=ListenHandler(own.bus),
        on_list_prompts=_completing(own.list_prompts),
        on_get_prompt=_completing(own.get_prompt),
        on_completion=_completing(own.complete),
        on_set_logging_level=_completing(own.accept),
    )


async def _serve_stdio() -> None:
    server = build_server()
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())


def main(place: str) -> None:
    """Serve at a port, or on standard input and output."""
    if place == "stdio":
        asyncio.run(_serve_stdio())
        return
    app = build_server().streamable_http_app(event_store=KeptEvents(), retry_interval=_RETRY_MS)
    uvicorn.run(app, host="127.0.0.1", port=int(place), log_level="info", access_log=False)


if __name__ == "__main__":
    main(sys.argv[1])
