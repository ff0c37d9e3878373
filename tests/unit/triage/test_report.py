import io

import pytest

from demur.codes.registry import Registry
from demur.errors import InputError
from demur.triage.counts import CountKey, LineSample, RefusalCounts
from demur.triage.report import (
    TriageLimit,
    counts_csv,
    counts_json,
    group_counts,
    largest_groups,
    unknown_codes,
)
from demur.triage.run import ProgressBar, format_size

COUNTS = RefusalCounts(
    rows={
        CountKey("RCE_RISK", "canonical", "tool_call", "2026-11-15T14", "a.log"): 3,
        CountKey("RCE_RISK", "legacy", "unknown", "2026-11-15T15", "=b.log"): 1,
        CountKey("RATE_LIMIT", "legacy", "unknown", "unknown", "a.log"): 6,
        CountKey("NOPE_NOPE", "unknown"): 2,
        CountKey("RCE_RISK", "quoted"): 5,
    },
    samples={("NOPE_NOPE", "unknown"): (LineSample("a.log", 3, "x"),)},
)


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("code", [("RATE_LIMIT", 6), ("RCE_RISK", 4)]),
        ("class", [("WORKFLOW_BLOCK", 6), ("HARD_BLOCK", 4)]),
        ("family", [("guard", 10)]),
        ("parent", [("RATE_LIMIT", 6), ("POLICY_VIOLATION", 4)]),
        ("surface", [("unknown", 7), ("tool_call", 3)]),
        ("hour", [("2026-11-15T14", 3), ("2026-11-15T15", 1), ("unknown", 6)]),
        ("day", [("2026-11-15", 4), ("unknown", 6)]),
        ("file", [("a.log", 9), ("=b.log", 1)]),
        ("kind", [("legacy", 7), ("canonical", 3)]),
    ],
)
def test_counts_are_grouped_by(by: str, names: list[tuple[str, int]], core: Registry) -> None:
    found = group_counts(COUNTS, [by], core)

    assert [(group.names[0], group.total_count) for group in found] == names
    assert sum(group.share for group in found) == pytest.approx(1)


def test_groups_can_be_of_several(core: Registry) -> None:
    found = group_counts(COUNTS, ["day", "code"], core)

    assert [group.names for group in found] == [
        ("2026-11-15", "RCE_RISK"),
        ("unknown", "RATE_LIMIT"),
    ]


def test_a_plain_line_has_the_only_surface_of_its_code(core: Registry) -> None:
    rows = {
        CountKey("LOOP_DETECTED", "canonical"): 2,
        CountKey("LOOP_DETECTED", "legacy", "runtime"): 1,
        CountKey("RCE_RISK", "canonical"): 4,
        CountKey("LOOP_DETECTED", "quoted"): 9,
    }
    counts = RefusalCounts(rows=rows)

    assert [
        (group.names[0], group.total_count) for group in group_counts(counts, ["surface"], core)
    ] == [("unknown", 4), ("tool_loop", 2), ("runtime", 1)]
    assert counts_json(counts, ["surface"], core)["surfaces_of_codes"] == 2


def test_all_codes_below_one_are_rolled_up_into_it(core: Registry) -> None:
    codes = ("CONTENT_OTHER", "CONTENT_SEXUAL", "CONTENT_CSAE", "CONTENT_CBRN", "RATE_LIMIT")
    counts = RefusalCounts(rows={CountKey(code, "canonical"): 1 for code in codes})

    for by, names in (
        ("parent", ["CONTENT_OTHER", "RATE_LIMIT"]),
        ("family", ["content", "guard"]),
    ):
        groups = group_counts(counts, [by], core)
        assert [(group.names[0], group.total_count) for group in groups] == [
            (names[0], 4),
            (names[1], 1),
        ]


def test_the_largest_groups_are_kept_in_order_of_time(core: Registry) -> None:
    rows = {CountKey("RCE_RISK", "legacy", hour=f"2026-11-1{day}T09"): day for day in (1, 3, 2, 5)}
    found = group_counts(RefusalCounts(rows=rows), ["day"], core)

    assert [group.total_count for group in found] == [1, 2, 3, 5]
    assert [group.total_count for group in largest_groups(found, 2)] == [3, 5]
    assert largest_groups(found, None) == found
    assert [
        row["total"]
        for row in counts_json(RefusalCounts(rows=rows), ["day"], core, top=1)["groups"]
    ] == [5]


def test_a_code_without_a_class_has_none(core: Registry) -> None:
    allowing = next(entry.code for entry in core if entry.refusal_class is None)
    rows = {CountKey(allowing, "canonical"): 1, CountKey("GONE_GONE", "canonical"): 1}

    assert [group.names for group in group_counts(RefusalCounts(rows=rows), ["class"], core)] == [
        ("none",)
    ]
    assert [group.names for group in group_counts(RefusalCounts(rows=rows), ["hour"], core)] == [
        ("unknown",)
    ]


def test_json_says_everything(core: Registry) -> None:
    said = counts_json(COUNTS, ["code"], core, top=1)

    assert (said["total"], said["canonical"], said["legacy"]) == (10, 3, 7)
    assert (said["unknown"], said["quoted"], said["more_groups"]) == (2, 5, 1)
    assert said["unknown_codes"] == [{"code": "NOPE_NOPE", "number": 2}]
    assert said["samples"][0]["text"] == "x"


def test_csv_runs_nothing_in_a_spreadsheet(core: Registry) -> None:
    lines = counts_csv(COUNTS, ["file"], core).splitlines()

    assert lines == [
        "file,canonical,legacy,total,share",
        "a.log,3,6,9,0.900000",
        "'=b.log,0,1,1,0.100000",
    ]


def test_other_kinds_can_be_listed() -> None:
    assert unknown_codes(COUNTS, "quoted") == [("RCE_RISK", 5)]


@pytest.mark.parametrize(
    ("text", "over"),
    [
        ("RCE_RISK>0", True),
        ("RCE_RISK > 3", True),
        ("RCE_RISK>4", False),
        ("RCE_RISK>=4", True),
        ("RCE_RISK>39.9%", True),
        ("RCE_RISK>40%", False),
        ("HARD_BLOCK>3", True),
        ("guard>9", True),
        ("content>0", False),
        ("unknown>1", True),
        ("quoted>5", False),
        ("legacy>=7", True),
        ("total>9", True),
        ("SECRET_LEAK>0", False),
    ],
)
def test_a_limit_is_held_against_the_counts(text: str, over: bool, core: Registry) -> None:
    limit = TriageLimit.parse(text, core)

    assert limit.is_exceeded(COUNTS, core) is over
    assert TriageLimit.parse(str(limit), core) == limit
    assert not limit.is_exceeded(RefusalCounts(), core)


@pytest.mark.parametrize("text", ["", "RCE_RISK", "RCE_RISK<3", "RCE_RISK>x", ">0"])
def test_a_malformed_limit_is_refused(text: str, core: Registry) -> None:
    with pytest.raises(InputError, match="is not a limit"):
        TriageLimit.parse(text, core)


def test_a_limit_for_a_code_that_nobody_holds_is_refused(core: Registry) -> None:
    with pytest.raises(InputError, match="`RCE_RISKS` is neither") as caught:
        TriageLimit.parse("RCE_RISKS>0", core)
    assert "RCE_RISK" in str(caught.value.help)


def test_the_bar_tells_rate_and_time_left() -> None:
    times = iter([0.0, 0.05, 2.0, 10_000.0])
    stream = io.StringIO()
    bar = ProgressBar(stream, 4_000_000, lambda: next(times))

    bar(1_000_000)
    assert not stream.getvalue()
    bar(1_000_000)
    assert "[############............]  50% 2.0 MB 1.0 MB/s 0:02 left" in stream.getvalue()
    assert bar.bar_text(20_000.0).endswith("5:33:20 left")
    bar.close()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_a_bar_without_an_end_tells_how_much() -> None:
    assert ProgressBar(io.StringIO(), 0, lambda: 0.0).bar_text(1.0) == "0 B 0 B/s"


@pytest.mark.parametrize(("size", "text"), [(999, "999 B"), (1500, "1.5 kB"), (2e15, "2000.0 TB")])
def test_sizes_read_well(size: float, text: str) -> None:
    assert format_size(size) == text
