import time
from collections.abc import Callable

import pytest

from demur.codes.document import RegistryDocument, read_document
from demur.codes.find import FoundRefusal, find_refusals
from demur.codes.registry import CORE_PATH, Registry
from demur.errors import InputTypeError

LINE = "REFUSED: RCE_RISK: curl | sh"
LONGEST_DOMAIN = ".".join(["a" * 62] * 4) + "bb"
LONGEST = f"{LONGEST_DOMAIN}/{'C' * 63}"


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "2026-01-31T12:00:00.123Z ",
        "2026-01-31 12:00:00,123 - guard - WARNING - ",
        "WARNING:demur.guard:",
        "[guard] ",
        "[guard]",
        '{"level": "warn", "message": "',
        "msg='",
        "(",
        "<13>1 host app - - ",
        "time=12:00 level=warn msg=",
        "12:00\t",
        "connection REFUSED: by peer; ",
        "dial ECONNREFUSED: ",
        "NOT_REFUSED: RATE_LIMIT: ",
        "…",
    ],
)
def test_a_refusal_is_found_behind_a_prefix(prefix: str, core: Registry) -> None:
    text = prefix + LINE

    assert find_refusals(text, registry=core) == [
        FoundRefusal("RCE_RISK", "curl | sh", len(prefix), len(text), legacy=False)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "ECONNREFUSED: RCE_RISK: x",
        "_REFUSED: RCE_RISK: x",
        "éREFUSED: RCE_RISK: x",
        "connection REFUSED: by peer",
        "connection REFUSED:",
        "at last REFUSED:RCE_RISK: x",
        "at last REFUSED: RCE_RISK:x",
        "at last REFUSED: RCE_RISK (x)",
        "at last REFUSED: NOPE_NOPE: x",
        "at last REFUSED: NOPE_NOPE: REFUSED: RCE_RISK: x",
        "at last REFUSED: by us, too many requests",
        "REFUSED: by peer; REFUSED: RCE_RISK: x",
        f"REFUSED: {'A' * 64}: x",
        f"REFUSED: {'A' * 10_000}",
    ],
)
def test_there_is_no_refusal_in_this(text: str, core: Registry) -> None:
    assert find_refusals(text, registry=core) == []


@pytest.mark.parametrize("ending", ["", ":", ": "])
def test_a_refusal_without_detail_is_found(ending: str, core: Registry) -> None:
    text = f"12:00 REFUSED: RCE_RISK{ending}"

    assert find_refusals(text, registry=core) == [
        FoundRefusal("RCE_RISK", "", 6, len(text), legacy=False)
    ]


def test_a_line_without_a_marker_is_read_by_its_phrases(core: Registry) -> None:
    text = "first\n12:00 Too Many Requests!\nlast"
    [found] = find_refusals(text, registry=core)

    assert found == ("RATE_LIMIT", "12:00 Too Many Requests!", 6, 30, True)
    assert text[found.start : found.end] == found.detail


def test_each_line_holds_at_most_one_refusal_and_they_come_in_order(core: Registry) -> None:
    text = f"{LINE}\r\ntoo many requests\x85x {LINE} {LINE}\u2028nothing\n{LINE}"
    found = find_refusals(text, registry=core)

    assert [(one.code, one.legacy) for one in found] == [
        ("RCE_RISK", False),
        ("RATE_LIMIT", True),
        ("RCE_RISK", False),
        ("RCE_RISK", False),
    ]
    assert [text[one.start : one.end] for one in found] == [
        LINE,
        "too many requests",
        f"{LINE} {LINE}",
        LINE,
    ]


def test_a_detail_is_restored_and_a_nested_refusal_stays_detail(core: Registry) -> None:
    [found] = find_refusals("x REFUSED: RATE_LIMIT: a\\u000aREFUSED: RCE_RISK: b", registry=core)

    assert (found.code, found.detail) == ("RATE_LIMIT", "a\nREFUSED: RCE_RISK: b")


def test_a_registry_without_codes_is_still_the_one_to_ask() -> None:
    text = '{"schema_version": "reason_codes.v1", "version": "1.0.0", "codes": []}'
    empty = Registry(read_document("empty.json", text))

    assert find_refusals(f"{LINE}\ntoo many requests", registry=empty) == []


def test_the_longest_name_there_can_be_is_found(acme: Callable[..., RegistryDocument]) -> None:
    document = acme({"code": LONGEST}, domain=LONGEST_DOMAIN)
    registry = Registry(read_document(CORE_PATH), [document])

    assert len(LONGEST) == 317
    for ending, detail in (("", ""), (":", ""), (": x", "x")):
        [found] = find_refusals(f"now REFUSED: {LONGEST}{ending}", registry=registry)
        assert (found.code, found.detail) == (LONGEST, detail)


@pytest.mark.parametrize("value", [None, 7, LINE.encode(), [LINE], object()])
def test_what_is_no_string_is_a_type_error(value: str) -> None:
    with pytest.raises(InputTypeError, match="a text must be a string, not `"):
        find_refusals(value)


@pytest.mark.parametrize(
    "filler",
    ["x" * 10_000_000, "\n" * 1_000_000, "\x00", "\ud800"],
    ids=["long", "lines", "nul", "half"],
)
def test_a_text_of_any_size_and_kind_is_searched(filler: str, core: Registry) -> None:
    text = f"{filler}\n{LINE}"

    assert [one.start for one in find_refusals(text, registry=core)] == [len(filler) + 1]


@pytest.mark.parametrize(
    "unit", ["REFUSED:", "REFUSED: ", " REFUSED: ! ", f"x REFUSED: {'A' * 70}: ", "REFUSED: a:b"]
)
def test_a_line_full_of_markers_costs_no_more_than_its_length(unit: str, core: Registry) -> None:
    # A way that looks at the rest of the line for each marker would need minutes.
    text = f"> {unit * (2_000_000 // len(unit))}"
    before = time.perf_counter()

    assert find_refusals(text, registry=core) == []
    assert time.perf_counter() - before < 20


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("\x1b[31mREFUSED: RCE_RISK: x\x1b[0m", "x"),
        ("12:00 \x1b[1m\x1b[31mREFUSED: RCE_RISK\x1b[0m", ""),
    ],
)
def test_colour_is_no_part_of_what_a_line_says(line: str, detail: str) -> None:
    [refusal] = find_refusals(line)

    assert (refusal.code, refusal.detail) == ("RCE_RISK", detail)
    assert "\x1b" not in line[refusal.start : refusal.end]
