"""Filter a server's messages on their way to the client.

A refused part that can be left out is left out: an entry of a list, the instructions of a server,
the text of a progress notification. Otherwise the refusal replaces the whole message.
"""

from typing import Any

from demur.enforce.ruling import CheckResult
from demur.integrations.mcp_proxy.answers import TOOL_CALL_METHOD, refusal_response
from demur.integrations.mcp_proxy.judge import ProxyJudge
from demur.integrations.mcp_proxy.listing import LIST_MEMBERS, ListFilter, Notify, drop_look_alikes
from demur.integrations.mcp_proxy.message import RpcMessage
from demur.integrations.mcp_proxy.open_requests import OpenRequest

__all__ = ["NOTIFICATION_ACTION", "REQUEST_ACTION", "ServerFilter"]

# The recorded actions for notifications and requests of the server, whose methods it chooses.
NOTIFICATION_ACTION = "mcp.notification"
REQUEST_ACTION = "mcp.request"
_SAMPLING_METHOD = "sampling/createMessage"
# Methods whose results come from a tool.
_TOOL_METHODS = frozenset({TOOL_CALL_METHOD, "tasks/result"})
_ANSWER_MEMBERS = frozenset({"jsonrpc", "id", "result", "error"})
# Results with parts that can be left out, and their replacements; None removes the part.
_GREETING_PARTS: dict[str, Any] = {"instructions": None, "serverInfo": {}, "_meta": None}
_OPTIONAL_PARTS: dict[str, dict[str, Any]] = {
    "initialize": _GREETING_PARTS,
    "server/discover": _GREETING_PARTS,
    "completion/complete": {"completion": {"values": []}, "_meta": None},
    **{method: {"_meta": None} for method in LIST_MEMBERS},
}
# Texts that a client does not need.
_OPTIONAL_TEXTS = {
    "notifications/cancelled": "reason",
    "notifications/progress": "message",
    "notifications/tasks/status": "statusMessage",
}


class ServerFilter:
    """Filters a server's messages."""

    def __init__(
        self, judge: ProxyJudge, list_filter: ListFilter, notify: Notify, *, hard_as_error: bool
    ) -> None:
        self._judge = judge
        self._list_filter = list_filter
        self._notify = notify
        self._hard_as_error = hard_as_error

    async def filter_answer(self, request: OpenRequest, answer: dict[str, Any]) -> dict[str, Any]:
        """Return an answer as the client may see it."""
        result = answer.get("result")
        if request.method in _OPTIONAL_PARTS and isinstance(result, dict):
            result, rest = await self._trim_result(request, result)
            answer = answer if result is answer["result"] else {**answer, "result": result}
        else:
            rest = answer["result"] if "result" in answer else answer["error"]
        if stray := {name: item for name, item in answer.items() if name not in _ANSWER_MEMBERS}:
            rest = [rest, stray]
        # INVARIANT: no text of the server reaches the client unchecked.
        ruling = await self._check_content(request, rest)
        if ruling.allowed:
            return answer
        self._notify(f"withheld what `{_request_name(request)}` returned: {ruling.line}")
        return refusal_response(request, ruling, hard_as_error=self._hard_as_error)

    async def check_request(self, message: RpcMessage) -> CheckResult:
        """Return the ruling on a request of the server to the client, its model or its user."""
        source, identity = message.method[:100], message.value["id"]
        if message.method == _SAMPLING_METHOD:
            ruling = await self._judge.check_sampling(message.value.get("params"), identity)
        else:
            ruling = await self._judge.check_passage(
                message.value, source, REQUEST_ACTION, identity
            )
        if not ruling.allowed:
            self._notify(f"refused to ask the client `{source}`: {ruling.line}")
        return ruling

    async def filter_notification(self, message: RpcMessage) -> dict[str, Any] | None:
        """Return a notification as the client may see it; None if it is refused."""
        ruling = await self._check_notification(message.value)
        if ruling.allowed:
            return message.value
        remark = _OPTIONAL_TEXTS.get(message.method)
        if remark in message.params:
            rest = {name: item for name, item in message.params.items() if name != remark}
            spoken = {**message.value, "params": rest}
            if (await self._check_notification(spoken)).allowed:
                self._notify(f"left `{remark}` out of `{message.method}`: {ruling.line}")
                return spoken
        self._notify(f"dropped `{message.method[:100]}` of the server: {ruling.line}")
        return None

    async def _check_notification(self, value: dict[str, Any]) -> CheckResult:
        return await self._judge.check_passage(value, value["method"][:100], NOTIFICATION_ACTION)

    async def _trim_result(
        self, request: OpenRequest, result: dict[str, Any]
    ) -> tuple[dict[str, Any], Any]:
        """Return a result without refused parts, and the rest that is still unchecked."""
        parts, member = _OPTIONAL_PARTS[request.method], LIST_MEMBERS.get(request.method)
        read = {*parts, *(() if member is None else (member,))}
        result = drop_look_alikes(result, read, self._notify)
        for name in [one for one in parts if one in result]:
            ruling = await self._judge.check_passage(
                result[name], name, request.method, request.request_id
            )
            if not ruling.allowed:
                self._notify(f"left out `{name}` of `{request.method}`: {ruling.line}")
                result = self._replace_part(result, name, parts[name])
        if member is not None and isinstance(result.get(member), list):
            result = await self._list_filter.filter_list(request, result)
        elif member is not None:
            read.discard(member)
        return result, {name: item for name, item in result.items() if name not in read}

    def _replace_part(self, result: dict[str, Any], name: str, instead: Any) -> dict[str, Any]:
        if instead is None:
            return {key: item for key, item in result.items() if key != name}
        # A client needs a server name, and already knows this one.
        named = {"name": self._judge.server, "version": "withheld"}
        return {**result, name: named if name == "serverInfo" else instead}

    async def _check_content(self, request: OpenRequest, content: Any) -> CheckResult:
        name = _request_name(request)
        if request.method in _TOOL_METHODS:
            given = request.params.get("arguments")
            arguments = given if isinstance(given, dict) else {}
            return await self._judge.check_result(name, content, arguments, request.request_id)
        return await self._judge.check_passage(content, name, request.method, request.request_id)


def _request_name(request: OpenRequest) -> str:
    """Return the name or URI that was requested, or the method."""
    name = request.params.get("name") or request.params.get("uri")
    return name if isinstance(name, str) else request.method
