import json
from typing import Any

import pytest

from demur.providers.event_streams import parse_events, unwrap_event
from demur.providers.node import ReadBudget, ResponseTooLargeError
from demur.providers.normalization import normalize

FILTERED = {"choices": [{"delta": {}, "finish_reason": "content_filter"}]}
JSON = json.dumps(FILTERED)


def events(text: str) -> list[Any]:
    return parse_events(text, ReadBudget())


@pytest.mark.parametrize(
    "text",
    [
        f"data: {JSON}",
        f"{JSON}\n{{}}",
        f": ping\nevent: x\nid: 1\nretry: 3\ndata: {JSON}\n\ndata: [DONE]\n",
        f"\ufeff\n{JSON}\r\n\r\n{JSON}",
        f"data: {JSON}\n\ndata: {JSON[:9]}",
        f"data: {JSON}\n\nda",
        f"{JSON}\n{JSON[:9]}",
        "".join(f"data: {line}\n" for line in json.dumps(FILTERED, indent=1).splitlines()),
    ],
    ids=["sse", "lines", "fields", "mark", "cut", "cut name", "cut line", "many lines"],
)
def test_a_kept_stream_is_read(text: str) -> None:
    assert FILTERED in events(text)
    assert normalize(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        f"Sure! An example:\n{JSON}\nHope that helps.",
        f"{JSON}\nis what a filter says.",
        f"{JSON}\nis what a filter says.\n{JSON}",
        f"data: {JSON}\nis what a filter says.",
        'The hook prints\n{"decision": "block", "reason": "no"}\nand exits.',
        "two\nlines",
        "",
        f"[1]\n{JSON}",
    ],
)
def test_an_answer_that_quotes_events_is_no_stream(text: str) -> None:
    assert events(text) == []
    assert normalize(text) is None


def test_an_event_is_found_inside_what_carries_it() -> None:
    assert unwrap_event(f"data: {JSON}") == FILTERED
    assert unwrap_event({"chunk": {"bytes": JSON.encode()}}) == FILTERED
    assert unwrap_event({"event": "x", "data": JSON}) == FILTERED
    assert unwrap_event("words") is None


@pytest.mark.parametrize("line", ['data: {"a": 1}\n', '{"a": 1}\n'])
def test_the_lines_that_are_read_are_bounded(line: str) -> None:
    with pytest.raises(ResponseTooLargeError):
        parse_events(line * 200, ReadBudget(1000))
