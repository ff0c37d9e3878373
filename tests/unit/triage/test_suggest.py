import json

import pytest

from demur.codes.registry import Registry
from demur.triage.counts import MAX_UNKNOWN_CODES, OTHER, UNMAPPED, RefusalCounts, TriageOptions
from demur.triage.scan import scan_lines
from demur.triage.suggest import (
    MAX_PATTERN_LENGTH,
    Suggestion,
    find_unmapped,
    list_suggestions,
    mask_line,
)

SUGGEST = TriageOptions(suggest=True)


def suggestions(log: bytes, core: Registry) -> list[Suggestion]:
    return list_suggestions(scan_lines(log, SUGGEST), core)


@pytest.mark.parametrize(
    "line",
    [
        "request denied for agent billing",
        "12:00 WARN gate - payment blocked",
        "REFUSED: too risky, ask somebody",
        "refused: RCE_RISK: x",
        "tool wipe is forbidden here",
        "The call is not  allowed",
        "user not authorised",
        "import of os rejected",
        "limit exceeded for team 4",
    ],
)
def test_a_line_that_sounds_like_a_refusal_is_found(line: str) -> None:
    assert len(list(find_unmapped(line))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "connect: Connection refused",
        "bash: x: Permission denied",
        "set socket to non-blocking mode",
        "task blocked for more than 120 seconds",
        "UNIQUE constraint violated",
        "no requests blocked",
        "0 calls were rejected",
        "the call was not denied",
        "rejected: 0",
        "denied=false, allowed=true",
        "all is well",
        "12:00 loading module 'denied.py'",
        "",
    ],
)
def test_a_line_that_means_something_else_is_not(line: str) -> None:
    assert list(find_unmapped(line)) == []


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("2026-11-15T14:00:02Z WARN guard - call 123 denied", "guard - call … denied"),
        ("[2026-11-15 14:00:02,123] [error] call denied", "call denied"),
        ("nov 15 14:00:07 box guard[31]: denied", "box guard[…]: denied"),
        ("info: denied to 'erin' and \"max\"", "denied to … and …"),
        ("denied: https://example.com/a?b=1 for erin@example.com", "denied: … for …"),
        ("denied: /srv/data/x.csv and 0f8fad5bd9cb", "denied: … and …"),
    ],
)
def test_times_levels_and_values_are_left_out_of_the_wording(line: str, pattern: str) -> None:
    assert mask_line(line.casefold()) == pattern


def test_a_long_line_is_cut() -> None:
    [pattern] = find_unmapped("denied " + "word " * 1_000)

    assert len(pattern) <= MAX_PATTERN_LENGTH


def test_lines_of_one_wording_are_one_suggestion_the_most_frequent_first(core: Registry) -> None:
    log = b"payment 1 blocked\n" + b"call 1 denied\ncall 22 denied\nCALL 3 Denied\n"

    found = suggestions(log, core)

    assert [(one.pattern, one.number) for one in found] == [
        ("call … denied", 3),
        ("payment … blocked", 1),
    ]
    assert found[0].sample is not None
    assert found[0].sample.offset == len(b"payment 1 blocked\n")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"REFUSED: rate limit exceeded", "RATE_LIMIT"),
        (b"tool wipe is forbidden here", "TOOL_NOT_ALLOWED"),
        (b"payment rejected: the chargeback risk is too large", "CHARGEBACK_RISK_BLOCK"),
        (b"import of os rejected", "RISKY_IMPORT"),
        (b"request 12 denied", None),
    ],
)
def test_the_nearest_code_is_named_or_none(line: bytes, code: str | None, core: Registry) -> None:
    assert [one.nearest for one in suggestions(line, core)] == [code]


def test_of_a_structured_log_only_the_message_of_a_program_is_read(core: Registry) -> None:
    events = [
        {"message": "call denied", "user_text": "payment blocked"},
        {"message": "call denied", "role": "user"},
        {"message": "prompt: payment blocked"},
        {"message": "too many requests"},
        {"other": "call denied"},
        {"message": '{"message": "call denied"}'},
    ]
    log = "\n".join(map(json.dumps, events)).encode()

    assert [(one.pattern, one.number) for one in suggestions(log, core)] == [("call denied", 1)]


def test_a_log_full_of_refusals_is_searched_as_well(core: Registry) -> None:
    log = b"REFUSED: RCE_RISK: x\n" * 50_000 + b"call denied\n"

    assert [one.pattern for one in suggestions(log * 2, core)] == ["call denied"]


def test_the_number_of_wordings_is_bounded(core: Registry) -> None:
    words = ("".join(chr(97 + int(digit)) for digit in str(number)) for number in range(3_000))
    log = "".join(f"call of {word} denied\n" for word in words).encode()

    counts = scan_lines(log, SUGGEST)

    assert counts.count_kinds(UNMAPPED) == 3_000
    names = {key.code for key in counts.rows}
    assert OTHER in names
    assert len(names) == MAX_UNKNOWN_CODES + 1
    assert list_suggestions(RefusalCounts(), core) == []
