"""Filter a server's messages on their way to the client.

A refused part that can be left out is left out: an entry of a list, the instructions of a server,
the text of a progress notification. Otherwise the refusal replaces the whole message.
"""

from typing import Any

from demur.enforce.ruling import Ruling
from demur.integrations.mcp_proxy.answers import CALL, refusal_to
from demur.integrations.mcp_proxy.judge import Judge
from demur.integrations.mcp_proxy.listing import LISTS, Listing, Note, without_look_alikes
from demur.integrations.mcp_proxy.message import Message
from demur.integrations.mcp_proxy.open_requests import Asked

__all__ = ["NOTICE", "QUESTION", "Passing"]

# The recorded actions for notifications and requests of the server, whose methods it chooses.
NOTICE = "mcp.notification"
QUESTION = "mcp.request"
_SAMPLING = "sampling/createMessage"
# Methods whose results come from a tool.
_RETURNED = frozenset({CALL, "tasks/result"})
_ANSWER = frozenset({"jsonrpc", "id", "result", "error"})
# Results with parts that can be left out, and their replacements; None removes the part.
_GREETING: dict[str, Any] = {"instructions": None, "serverInfo": {}, "_meta": None}
_PARTS: dict[str, dict[str, Any]] = {
    "initialize": _GREETING,
    "server/discover": _GREETING,
    "completion/complete": {"completion": {"values": []}, "_meta": None},
    **{method: {"_meta": None} for method in LISTS},
}
# Texts that a client does not need.
_REMARKS = {
    "notifications/cancelled": "reason",
    "notifications/progress": "message",
    "notifications/tasks/status": "statusMessage",
}


class Passing:
    """Filters a server's messages."""

    def __init__(self, judge: Judge, listing: Listing, note: Note, *, hard_as_error: bool) -> None:
        self._judge = judge
        self._listing = listing
        self._note = note
        self._hard_as_error = hard_as_error

    async def answer(self, asked: Asked, answer: dict[str, Any]) -> dict[str, Any]:
        """Return an answer as the client may see it."""
        result = answer.get("result")
        if asked.method in _PARTS and isinstance(result, dict):
            result, rest = await self._trimmed(asked, result)
            answer = answer if result is answer["result"] else {**answer, "result": result}
        else:
            rest = answer["result"] if "result" in answer else answer["error"]
        if stray := {name: item for name, item in answer.items() if name not in _ANSWER}:
            rest = [rest, stray]
        # INVARIANT: no text of the server reaches the client unchecked.
        ruling = await self._returned(asked, rest)
        if ruling.allowed:
            return answer
        self._note(f"withheld what `{_named(asked)}` returned: {ruling.line}")
        return refusal_to(asked, ruling, hard_as_error=self._hard_as_error)

    async def question(self, message: Message) -> Ruling:
        """Return the ruling on a request of the server to the client, its model or its user."""
        source, identity = message.method[:100], message.value["id"]
        if message.method == _SAMPLING:
            ruling = await self._judge.sampling(message.value.get("params"), identity)
        else:
            ruling = await self._judge.passage(message.value, source, QUESTION, identity)
        if not ruling.allowed:
            self._note(f"refused to ask the client `{source}`: {ruling.line}")
        return ruling

    async def notice(self, message: Message) -> dict[str, Any] | None:
        """Return a notification as the client may see it; None if it is refused."""
        ruling = await self._noticed(message.value)
        if ruling.allowed:
            return message.value
        remark = _REMARKS.get(message.method)
        if remark in message.params:
            rest = {name: item for name, item in message.params.items() if name != remark}
            spoken = {**message.value, "params": rest}
            if (await self._noticed(spoken)).allowed:
                self._note(f"left `{remark}` out of `{message.method}`: {ruling.line}")
                return spoken
        self._note(f"dropped `{message.method[:100]}` of the server: {ruling.line}")
        return None

    async def _noticed(self, value: dict[str, Any]) -> Ruling:
        return await self._judge.passage(value, value["method"][:100], NOTICE)

    async def _trimmed(self, asked: Asked, result: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Return a result without refused parts, and the rest that is still unchecked."""
        parts, member = _PARTS[asked.method], LISTS.get(asked.method)
        read = {*parts, *(() if member is None else (member,))}
        result = without_look_alikes(result, read, self._note)
        for name in [one for one in parts if one in result]:
            ruling = await self._judge.passage(result[name], name, asked.method, asked.identity)
            if not ruling.allowed:
                self._note(f"left out `{name}` of `{asked.method}`: {ruling.line}")
                result = self._without(result, name, parts[name])
        if member is not None and isinstance(result.get(member), list):
            result = await self._listing.filtered(asked, result)
        elif member is not None:
            read.discard(member)
        return result, {name: item for name, item in result.items() if name not in read}

    def _without(self, result: dict[str, Any], name: str, instead: Any) -> dict[str, Any]:
        if instead is None:
            return {key: item for key, item in result.items() if key != name}
        # A client needs a server name, and already knows this one.
        named = {"name": self._judge.server, "version": "withheld"}
        return {**result, name: named if name == "serverInfo" else instead}

    async def _returned(self, asked: Asked, content: Any) -> Ruling:
        name = _named(asked)
        if asked.method in _RETURNED:
            given = asked.params.get("arguments")
            arguments = given if isinstance(given, dict) else {}
            return await self._judge.result(name, content, arguments, asked.identity)
        return await self._judge.passage(content, name, asked.method, asked.identity)


def _named(asked: Asked) -> str:
    """Return the name or URI that was requested, or the method."""
    name = asked.params.get("name") or asked.params.get("uri")
    return name if isinstance(name, str) else asked.method
