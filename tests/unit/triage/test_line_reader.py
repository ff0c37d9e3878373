import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from demur.codes.registry import Registry
from demur.emit.envelope import to_envelope
from demur.emit.events import to_cloudevents
from demur.model.refusal import Refusal
from demur.triage.counts import TriageOptions
from demur.triage.line_reader import parse_line_time, parse_value_time
from demur.triage.scan import looks_structured, scan_lines

JSON = TriageOptions(format="json")


def counts(*events: Any, options: TriageOptions = JSON) -> dict[tuple[str, str, str], int]:
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    found = scan_lines("\n".join(lines).encode("utf-8", "surrogateescape"), options)
    return {(key.code, key.kind, key.surface): number for key, number in found.rows.items()}


@pytest.mark.parametrize(
    "event",
    [
        {"message": "guard REFUSED: RCE_RISK: x"},
        {"msg": "REFUSED: RCE_RISK: x"},
        {"log": "REFUSED: RCE_RISK: x\n", "stream": "stdout"},
        {"event": "REFUSED: RCE_RISK: x", "level": "warning"},
        {"jsonPayload": {"message": "REFUSED: RCE_RISK: x"}},
        {"fields": {"message": "REFUSED: RCE_RISK: x"}},
        {"log": json.dumps({"message": "REFUSED: RCE_RISK: x"})},
        {"message": "{not json} REFUSED: RCE_RISK: x"},
        {"message": "user=bob REFUSED: RCE_RISK: prompt: hello"},
        {"message": "user asked for a refund: REFUSED: RCE_RISK: the user said so"},
        {"message": "[guard] user 7 REFUSED: RCE_RISK: x"},
        {"role": "guard", "user": "user", "message": "REFUSED: RCE_RISK: x"},
        {"author": {"role": "system"}, "from": 3, "message": "REFUSED: RCE_RISK: x"},
    ],
)
def test_the_usual_message_fields_count(event: dict[str, Any]) -> None:
    assert counts(event) == {("RCE_RISK", "canonical", "unknown"): 1}


@pytest.mark.parametrize(
    "event",
    [
        {"message": "ok", "prompt": "REFUSED: RCE_RISK: x"},
        {"text": "REFUSED: RCE_RISK: x"},
        {"message": "ok", "request": {"body": "too many requests"}},
        {"message": 7, "user": "REFUSED: RCE_RISK: x"},
        ["REFUSED: RCE_RISK: x"],
        {"data": to_envelope(Refusal.from_code("RCE_RISK", registry=Registry.load()))},
    ],
)
def test_text_in_other_fields_does_not_count(event: Any) -> None:
    assert not [key for key in counts(event) if key[1] != "quoted"]


@pytest.mark.parametrize(
    "message",
    [
        "prompt: REFUSED: RCE_RISK: x",
        'prompt="REFUSED: RCE_RISK: x"',
        "user said: REFUSED: RCE_RISK: x",
        "User: REFUSED: RCE_RISK: x",
        "<|im_start|>user REFUSED: RCE_RISK: x",
        "user said REFUSED: RCE_RISK: x",
        "the customer wrote please REFUSED: RCE_RISK: x",
        "[user] REFUSED: RCE_RISK: x",
        "chat 7 [user message] REFUSED: RCE_RISK: x",
        "user> REFUSED: RCE_RISK: x",
        "**User**: REFUSED: RCE_RISK: x",
        "<user_input>REFUSED: RCE_RISK: x</user_input>",
        'got <untrusted source="web"> REFUSED: RCE_RISK: x',
        "### Human REFUSED: RCE_RISK: x",
        'in {"role": "user", "content": "REFUSED: RCE_RISK: x"}',
        'in {\\"role\\":\\"user\\",\\"content\\": \\" REFUSED: RCE_RISK: x',
        "answered\nREFUSED: RCE_RISK: x",
        "answered\u2028REFUSED: RCE_RISK: x",
    ],
)
def test_a_quoted_refusal_is_counted_as_quoted(message: str) -> None:
    assert counts({"message": message}) == {("RCE_RISK", "quoted", "unknown"): 1}


@pytest.mark.parametrize(
    "event",
    [
        {"role": "user", "message": "REFUSED: RCE_RISK: x"},
        {"message": "REFUSED: RCE_RISK: x", "sender": " Customer "},
        {"author": {"role": "user"}, "msg": "REFUSED: RCE_RISK: x"},
        {"jsonPayload": {"role": "user", "message": "REFUSED: RCE_RISK: x"}},
        {"log": json.dumps({"message": "REFUSED: RCE_RISK: x", "role": "user"})},
        {"log": json.dumps({"msg": json.dumps({"msg": "REFUSED: RCE_RISK: x", "from": "human"})})},
        {"role": "user", "message": json.dumps({"message": "REFUSED: RCE_RISK: x"})},
        {"log": "  " + json.dumps({"message": "REFUSED: RCE_RISK: x", "role": "user"})},
    ],
)
def test_a_message_that_a_user_wrote_is_quoted(event: dict[str, Any]) -> None:
    assert counts(event) == {("RCE_RISK", "quoted", "unknown"): 1}


def test_json_within_json_is_opened_only_so_deep() -> None:
    message = "REFUSED: RCE_RISK: x"
    for depth in range(1, 5):
        message = json.dumps({"role": "user" if depth == 1 else "app", "message": message})

    assert counts(message) == {("RCE_RISK", "quoted", "unknown"): 1}
    deeper = json.dumps({"message": json.dumps({"message": message})})
    assert set(counts(deeper)) <= {("RCE_RISK", "quoted", "unknown")}


def test_the_role_next_to_a_named_field_is_read() -> None:
    options = TriageOptions(format="json", fields=("turn.content",))
    event = {"turn": {"role": "user", "content": "REFUSED: RCE_RISK: x"}}

    assert counts(event, options=options) == {("RCE_RISK", "quoted", "unknown"): 1}


@pytest.mark.parametrize("row", ["#", "<user ", "[user", "user ", '"role": '])
def test_no_row_of_marks_makes_a_message_slow(row: str) -> None:
    message = row * (100_000 // len(row)) + " REFUSED: RCE_RISK: x"
    start = time.process_time()
    counts({"message": message})

    assert time.process_time() - start < 5


def test_a_phrase_counts_before_foreign_text_and_not_in_it() -> None:
    found = counts({"msg": "too many requests, prompt: hi"}, {"msg": "prompt: too many requests"})

    assert found == {
        ("RATE_LIMIT", "legacy", "unknown"): 1,
        ("RATE_LIMIT", "quoted", "unknown"): 1,
    }


def test_a_line_that_is_no_json_is_set_aside() -> None:
    assert counts("REFUSED: RCE_RISK: x", '{"message": "REFUSED: RCE_RISK') == {
        ("RCE_RISK", "quoted", "unknown"): 2
    }


def test_a_named_field_is_the_only_one_that_counts() -> None:
    options = TriageOptions(format="json", fields=("guard.line",))
    event = {"guard": {"line": "REFUSED: RCE_RISK: x"}, "message": "REFUSED: RATE_LIMIT: y"}
    flat = {"guard.line": "REFUSED: PII_DETECTED: x"}

    assert counts(event, flat, {"guard": 3}, options=options) == {
        ("RCE_RISK", "canonical", "unknown"): 1,
        ("PII_DETECTED", "canonical", "unknown"): 1,
    }


def test_an_envelope_gives_code_and_surface_once() -> None:
    refusal = Refusal.from_code("RCE_RISK", "x", surface="tool_call", registry=Registry.load())
    envelope = to_envelope(refusal)
    event = to_cloudevents(
        refusal, event_id="1", time=datetime(2026, 1, 1, tzinfo=UTC), source="/g"
    )

    assert counts(envelope, {"message": refusal.line, "refusal": envelope}, event) == {
        ("RCE_RISK", "canonical", "tool_call"): 3
    }
    assert not counts({**envelope, "refusal_class": None}, {**envelope, "code": 3})
    assert counts({**envelope, "code": "NOPE_NOPE", "surface": "moon"}) == {
        ("NOPE_NOPE", "unknown", "unknown"): 1
    }
    assert not counts({**envelope, "code": "not a code"})


def test_a_record_counts_each_reason_that_refuses() -> None:
    record = {
        "schema_version": "decision_record.v1",
        "verdict": "DENY",
        "reason_codes": ["RCE_RISK", "RCE_RISK", "SECRET_LEAK", 3],
        "findings": [{"code": "RCE_RISK", "surface": "code_execution"}, 5],
        "created_at": "2026-11-15T14:00:00Z",
    }
    assert counts(record) == {
        ("RCE_RISK", "canonical", "code_execution"): 1,
        ("SECRET_LEAK", "canonical", "unknown"): 1,
    }
    assert not counts({**record, "verdict": "ALLOW"})
    assert not counts({**record, "reason_codes": None, "findings": None})


def test_a_reason_that_allows_is_no_refusal() -> None:
    allowing = [str(entry.code) for entry in Registry.load() if entry.refusal_class is None]
    record = {"schema_version": "decision_record.v1", "verdict": "DENY", "reason_codes": allowing}

    assert allowing
    assert not counts(record)


def test_the_fields_of_structlog_give_the_surface() -> None:
    event = {"event": "REFUSED: RCE_RISK: x", "refusal_surface": "input", "surface": ["x"]}

    assert counts(event) == {("RCE_RISK", "canonical", "input"): 1}


@pytest.mark.parametrize("escaped", ["\\u0052EFUSED: RCE_RISK: x", "REFUSED\\u003a RCE_RISK: x"])
def test_escapes_hide_nothing(escaped: str) -> None:
    assert counts(f'{{"message": "{escaped}"}}') == {("RCE_RISK", "canonical", "unknown"): 1}


def test_escaped_letters_that_fold_hide_nothing() -> None:
    assert counts(
        '{"message": "too many reque\\u017ft\\u017f"}',
        '{"message": "I can\\u2019t help with that"}',
    ) == {
        ("RATE_LIMIT", "legacy", "unknown"): 1,
        ("MODEL_DECLINED", "legacy", "unknown"): 1,
    }


def test_bytes_that_are_no_text_do_not_hide_an_event() -> None:
    assert counts('{"message": "REFUSED: RCE_RISK: \udcff", "n": NaN}') == {
        ("RCE_RISK", "canonical", "unknown"): 1
    }


def test_times_come_from_the_event() -> None:
    options = TriageOptions(format="json", timed=True)
    log = b'{"ts": 1794753839, "message": "REFUSED: RCE_RISK: 1999-01-01T00:00:00Z"}'
    log += b'\n{"message":"REFUSED: RCE_RISK"}'
    hours = {key.hour for key in scan_lines(log, options).rows}

    assert hours == {"2026-11-15T14", "unknown"}


@pytest.mark.parametrize(
    ("head", "structured"),
    [
        (b"", False),
        (b"plain\n", False),
        (b'{"a": 1}', True),
        (b'{"a": 1}\n{"a": ', True),
        (b'\n\n{"a": 1}\nbanner\n{"b": 2}\n{"c', True),
        (b"banner\nbanner\n{}\n", False),
        (b"{not json}\n{x}\n", False),
        (b'{"a": "' + b"x" * 70_000, True),
        (b"{" + b"x" * 70_000, False),
    ],
)
def test_a_structured_log_is_recognised_by_its_first_lines(head: bytes, structured: bool) -> None:
    assert looks_structured(head) is structured


NOW = datetime(2026, 11, 16, tzinfo=UTC)
AT = datetime(2026, 11, 15, 14, 43, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    "head",
    [
        "2026-11-15T14:43:59Z WARN ",
        "2026-11-15T14:43:59.123456789Z ",
        "2026-11-15T15:43:59+01:00 ",
        "2026-11-15 09:43:59-0500 ",
        "2026-11-15 14:43:59+00 ",
        "[2026-11-15 14:43:59,123] INFO root: ",
        "2026/11/15 14:43:59 main.go:12: ",
        "20261115T144359Z ",
        "<34>1 2026-11-15T14:43:59.003Z host app - - - ",
        "<34>Nov 15 14:43:59 host sshd[1]: ",
        "Nov 15 14:43:59 host app: ",
        "[Sun Nov 15 14:43:59.123456 2026] [error] ",
        "Sun Nov 15 14:43:59 UTC 2026 ",
        '127.0.0.1 - - [15/Nov/2026:15:43:59 +0100] "GET / ',
        "15 Nov 2026 14:43:59,123 WARN ",
        "Sun, 15 Nov 2026 14:43:59 GMT ",
        "I1115 14:43:59.123456    1 x.go:1] ",
        "1794753839 app ",
        "1794753839.250 app ",
        "1794753839250 app ",
        "[1794753839] app ",
        "level=info ts=1794753839.25 msg=",
        'time="2026-11-15T14:43:59Z" level=warning msg="',
        "99/99/9999 2026-11-15T14:43:59Z ",
        "2026-13-45T14:43:59Z then 2026-11-15T14:43:59Z ",
    ],
)
def test_the_common_forms_are_read(head: str) -> None:
    moment = parse_line_time(head, NOW)

    assert moment is not None
    assert moment.replace(microsecond=0) == AT


@pytest.mark.parametrize(
    "head",
    ["", "WARN guard: ", "2026-13-45T14:43:59Z ", "12:00 ", "v1.2.3 ", "Nov 31 00:00:00 ", "1234 "],
)
def test_a_malformed_time_is_none(head: str) -> None:
    assert parse_line_time(head, NOW) is None


def test_a_day_without_a_year_is_the_last_one_before_now() -> None:
    january = datetime(2027, 1, 2, tzinfo=UTC)

    assert parse_line_time("Dec 31 23:00:00 host ", january) == datetime(
        2026, 12, 31, 23, tzinfo=UTC
    )
    assert parse_line_time("Jan  2 03:00:00 host ", january) == datetime(2027, 1, 2, 3, tzinfo=UTC)
    assert parse_line_time("Dec 31 23:00:00 host ") is None


def test_only_the_head_of_a_line_says_its_time() -> None:
    assert parse_line_time("x" * 200 + "2026-11-15T14:43:59Z", NOW) is None


def test_a_leap_second_and_an_odd_zone_do_not_fail() -> None:
    assert parse_line_time("2026-11-15T14:43:60Z ") == AT
    assert parse_line_time("2026-11-15T14:43:59+99:99 ") == AT
    assert parse_line_time("0001-01-01T00:00:00+14:00 ") is None


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (1794753839, True),
        (1794753839000, True),
        (1794753839000000, True),
        (1794753839000000000, True),
        ("1794753839", True),
        ("2026-11-15T14:43:59Z", True),
        (True, False),
        (None, False),
        (-5, False),
        (1e30, False),
        (float("nan"), False),
        ([], False),
        ("soon", False),
    ],
)
def test_a_json_value_says_a_time_or_none(value: object, known: bool) -> None:
    assert parse_value_time(value) == (AT if known else None)
