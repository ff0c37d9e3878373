from typing import Any

import pytest

from demur.errors import InputError, InputTypeError
from demur.guards.code_execution.event import Command
from demur.guards.events import read_config, parse_event
from demur.guards.input.guard import InputConfig, InputText
from demur.guards.rate.guard import RateConfig, RateUse
from demur.guards.rate.limits import RateLimit
from demur.guards.tool_call.guard import ToolCall
from demur.guards.tool_loop.history import RecordedCall, CallHistory
from demur.model.finding import Action

LIMIT = RateLimit(count=1, per_s=1)


@pytest.mark.parametrize(
    ("surface", "value", "event"),
    [
        ("input", "hello", InputText("hello")),
        ("input", {"text": "hello"}, InputText("hello")),
        ("input", {"locale": "de", "text": "hello"}, InputText("hello", "de")),
        ("input", InputText("hello"), InputText("hello")),
        ("code_execution", "ls", Command(text="ls")),
        ("code_execution", {"text": "ls", "cwd": "/srv"}, Command(text="ls", cwd="/srv")),
        ("tool_call", "fetch", ToolCall(name="fetch")),
        ("tool_call", {"name": "f", "arguments": {"a": 1}}, ToolCall(name="f", arguments={"a": 1})),
        ("tool_loop", [{"name": "f"}], CallHistory(calls=(RecordedCall(name="f"),))),
        ("rate", {"key": "k", "limit": {"count": 1, "per_s": 1}}, RateUse(key="k", limit=LIMIT)),
    ],
)
def test_what_a_caller_has_becomes_the_event(surface: str, value: Any, event: Any) -> None:
    assert parse_event(surface, value) == event


@pytest.mark.parametrize(
    ("surface", "value", "where", "problem"),
    [
        ("input", {"txt": "x"}, "txt", "unknown field `txt`"),
        ("input", {"locale": "de"}, "text", "`text` is missing"),
        ("input", {"text": 3}, "text", "expected `str`, got `int`"),
        ("code_execution", {"text": "ls", "language": "cobol"}, "language", "invalid enum value"),
        ("code_execution", {}, None, "missing required field `text`"),
        ("rate", {"key": "k", "limit": {"count": 0, "per_s": 1}}, "limit", "`count` is from 1"),
        ("tool_loop", {"calls": [{"name": "f", "tokens": -1}]}, "calls", "must be a number from 0"),
    ],
)
def test_what_is_no_event_is_said_with_its_place(
    surface: str, value: Any, where: str | None, problem: str
) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        parse_event(surface, value)
    assert (caught.value.where or "").startswith(where or "")


@pytest.mark.parametrize(
    ("surface", "value"), [("input", 3), ("input", None), ("rate", "key"), ("input", ["x"])]
)
def test_what_is_of_another_kind_is_refused(surface: str, value: Any) -> None:
    with pytest.raises(InputTypeError, match=f"the event of `{surface}`"):
        parse_event(surface, value)


def test_settings_have_defaults_and_can_be_plain() -> None:
    assert read_config("rate", None) == RateConfig()
    assert read_config("rate", {"action": "warn"}) == RateConfig(action=Action.WARN)
    assert read_config("input", InputConfig(locale="de")) == InputConfig(locale="de")
    with pytest.raises(InputError, match="unknown field `actoin`"):
        read_config("rate", {"actoin": "warn"})
    with pytest.raises(InputTypeError, match="the config must be a `RateConfig`"):
        read_config("rate", "warn")
