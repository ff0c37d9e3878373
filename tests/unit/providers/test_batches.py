from typing import Any

import pytest

from demur.providers.batches import read_batch_line
from demur.providers.node import Node
from demur.providers.normalize import normalize

CHAT = {"choices": [{"finish_reason": "content_filter", "message": {"content": None}}]}
MESSAGE = {"type": "message", "stop_reason": "refusal", "content": []}
GEMINI = {"candidates": [{"finishReason": "OTHER"}]}
ERROR = {"type": "invalid_request_error", "code": "content_filter"}
LINES: list[dict[str, Any]] = [
    {"id": "x", "custom_id": "1", "response": {"status_code": 200, "body": CHAT}, "error": None},
    {"custom_id": "1", "response": {"status_code": 400, "body": {"error": ERROR}}, "error": None},
    {"custom_id": "1", "response": None, "error": ERROR},
    {"custom_id": "1", "result": {"type": "succeeded", "message": MESSAGE}},
    {"custom_id": "1", "result": {"type": "errored", "error": {"type": "error", "error": ERROR}}},
    {"key": "1", "response": GEMINI},
    {"request": {"contents": []}, "response": GEMINI},
    {"recordId": "1", "modelInput": {}, "modelOutput": MESSAGE},
]


@pytest.mark.parametrize("line", LINES)
def test_the_response_in_a_line_of_a_batch_is_read(line: dict[str, Any]) -> None:
    refusal = normalize(line)
    assert refusal
    assert refusal.code == "FILTERED_UNSPECIFIED"
    assert normalize([{"custom_id": "0", "result": {"type": "canceled"}}, line]) is not None


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"custom_id": "1", "result": {"type": "expired"}},
        {"custom_id": "1", "error": "x"},
        {"response": {"status_code": 200, "body": CHAT}},
    ],
)
def test_other_objects_are_no_lines_of_a_batch(line: dict[str, Any]) -> None:
    assert read_batch_line(Node(line)) is None
