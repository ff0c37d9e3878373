import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path

import pytest

from demur.codes.document import RegistryDocument, read_document
from demur.codes.reason_code import ReasonCode
from demur.codes.refusal_line import (
    KNOWN_CODES,
    REFUSAL_MARK,
    REFUSAL_PREFIX,
    FoundRefusal,
    ParsedRefusal,
    find_refusals,
    format_refusal,
    parse_refusal,
    unescape_detail,
)
from demur.codes.registry import CORE_PATH, Registry
from demur.errors import InputTypeError, UnknownCodeError

KYC = "acme.com/KYC_EXPIRED"
NOT_STRINGS = [None, 7, b"REFUSED: RCE_RISK: x", ["REFUSED: RCE_RISK: x"], object()]


class Shade(str, Enum):  # noqa: UP042 - formats as its name, unlike a StrEnum
    """A string enum of the old kind."""

    CODE = "RCE_RISK"
    DETAIL = "curl piped to sh"


@pytest.fixture(scope="module")
def registry(acme: Callable[..., RegistryDocument]) -> Registry:
    document = acme({"code": KYC, "aliases": ["kyc check lapsed"]})
    return Registry(read_document(CORE_PATH), [document])


def test_the_known_codes_are_the_core_with_its_deprecated_codes() -> None:
    assert frozenset(ReasonCode) == KNOWN_CODES
    assert "OLD_FRAUD_BLOCK" in KNOWN_CODES
    assert f"{REFUSAL_MARK} " == REFUSAL_PREFIX == "REFUSED: "


def test_a_line_is_marker_code_and_detail() -> None:
    assert format_refusal(ReasonCode.RCE_RISK, "curl | sh") == "REFUSED: RCE_RISK: curl | sh"
    assert format_refusal("RCE_RISK", "curl | sh") == "REFUSED: RCE_RISK: curl | sh"
    assert format_refusal("RCE_RISK") == "REFUSED: RCE_RISK: "


def test_a_string_enum_counts_by_its_value() -> None:
    assert format_refusal(Shade.CODE, Shade.DETAIL) == "REFUSED: RCE_RISK: curl piped to sh"


@pytest.mark.parametrize("code", ["NOPE_NOPE", "rce_risk", "", "RCE_RISK ", KYC, "x" * 10_000])
def test_an_unregistered_code_cannot_be_written(code: str, core: Registry) -> None:
    with pytest.raises(UnknownCodeError, match="unknown reason code") as caught:
        format_refusal(code, "x", registry=core)

    assert caught.value.__context__ is None


def test_an_organisation_s_code_is_written_and_read_with_its_registry(registry: Registry) -> None:
    line = format_refusal(KYC, "since\nMay", registry=registry)

    assert line == f"REFUSED: {KYC}: since\\u000aMay"
    assert parse_refusal(line, registry=registry) == (KYC, "since\nMay")
    assert parse_refusal(f"REFUSED: {KYC}", registry=registry) == (KYC, "")
    assert parse_refusal("KYC check lapsed", registry=registry) == (KYC, "KYC check lapsed")


def test_an_organisation_s_code_is_unknown_without_its_registry(core: Registry) -> None:
    assert parse_refusal(f"REFUSED: {KYC}: x", registry=core) is None


def test_a_registry_without_codes_is_still_the_one_to_ask(
    tmp_path: Path, acme_text: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "acme.json"
    path.write_text(acme_text({"code": KYC}), encoding="utf-8")
    monkeypatch.setenv("DEMUR_REGISTRY", str(path))
    text = '{"schema_version": "reason_codes.v1", "version": "1.0.0", "codes": []}'
    empty = Registry(read_document("empty.json", text))

    assert parse_refusal(f"REFUSED: {KYC}: x") == (KYC, "x")
    assert parse_refusal("too many requests", registry=empty) is None
    assert parse_refusal(f"REFUSED: {KYC}: x", registry=empty) is None
    with pytest.raises(UnknownCodeError, match="unknown reason code"):
        format_refusal(KYC, registry=empty)


@pytest.mark.parametrize("value", NOT_STRINGS)
def test_parsing_or_formatting_a_value_that_is_not_a_string_is_a_type_error(value: str) -> None:
    with pytest.raises(InputTypeError, match="a refusal must be a string, not `"):
        parse_refusal(value)
    with pytest.raises(InputTypeError, match="a detail must be a string, not `"):
        format_refusal("RCE_RISK", value)
    with pytest.raises(InputTypeError, match="a code must be a string, not `"):
        format_refusal(value, "x")


def test_a_core_code_is_read_as_a_member_of_the_enum(core: Registry) -> None:
    for text in ("REFUSED: RCE_RISK: x", "REFUSED: RCE_RISK: x\n", "weights only load failed"):
        parsed = parse_refusal(text, registry=core)
        assert isinstance(parsed, ParsedRefusal)
        assert parsed.code is ReasonCode.RCE_RISK


@pytest.mark.parametrize(
    ("detail", "written"),
    [
        ("\n", "\\u000a"),
        ("\r\n", "\\u000d\\u000a"),
        ("\x00\x1f\x7f\x80\x9f", "\\u0000\\u001f\\u007f\\u0080\\u009f"),
        ("\x85\u2028\u2029", "\\u0085\\u2028\\u2029"),
        ("\ud800\udfff", "\\ud800\\udfff"),
        ("\\\n", "\\\\\\u000a"),
        ("\\u000a", "\\\\u000a"),
        ("\\\\ud83d", "\\\\\\\\ud83d"),
    ],
)
def test_characters_that_break_a_line_are_escaped_and_restored(detail: str, written: str) -> None:
    assert format_refusal("RCE_RISK", detail) == f"REFUSED: RCE_RISK: {written}"
    assert unescape_detail(written) == detail


@pytest.mark.parametrize(
    "detail",
    [
        "\\d+ \\w",
        "C:\\temp\\new",
        "C:\\users\\u",
        "\\\\server\\share",
        "caf\\u00e9",
        "\\u000A",
        "\\u00",
        "\\U0001f600",
        "\\x0a",
        "u000a",
        "\\",
        "\xa0\xad\u200b é 😀 \U000e0041",
    ],
)
def test_foreign_escapes_stay_literal(detail: str, core: Registry) -> None:
    line = f"REFUSED: RCE_RISK: {detail}"

    assert format_refusal("RCE_RISK", detail) == line
    assert parse_refusal(line, registry=core) == ("RCE_RISK", detail)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("REFUSED: RATE_LIMIT: slow down\n", "slow down"),
        ("REFUSED: RATE_LIMIT: slow down\r\n", "slow down"),
        ("REFUSED: RATE_LIMIT: slow down\r", "slow down"),
        ("REFUSED: RATE_LIMIT:", ""),
        ("REFUSED: RATE_LIMIT: ", ""),
        ("REFUSED: RATE_LIMIT", ""),
        ("REFUSED: RATE_LIMIT:\n", ""),
        ("REFUSED: RATE_LIMIT\n", ""),
        ("REFUSED: RATE_LIMIT:  two", " two"),
        ("REFUSED: RATE_LIMIT: a\tb", "a\tb"),
        ("REFUSED: RATE_LIMIT: REFUSED: RCE_RISK: x", "REFUSED: RCE_RISK: x"),
        ("REFUSED: RATE_LIMIT: a: b", "a: b"),
    ],
)
def test_a_canonical_line_is_read(text: str, detail: str, core: Registry) -> None:
    assert parse_refusal(text, registry=core) == ("RATE_LIMIT", detail)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "REFUSED",
        "REFUSED:",
        "REFUSED: ",
        "REFUSED: : x",
        "REFUSED: NOPE_NOPE: x",
        "REFUSED: RATE_LIMIT:x",
        "REFUSED: RATE_LIMIT : x",
        "REFUSED:  RATE_LIMIT: x",
        "REFUSED:RATE_LIMIT: x",
        "REFUSED: rate_limit: x",
        "REFUSED: RATE_LIMIT: x\n\n",
        "REFUSED: RATE_LIMIT: x\ny",
        "REFUSED: RATE_LIMIT: x\x85",
        "REFUSED: RATE_LIMIT: x\u2028y",
        " REFUSED: RATE_LIMIT: x",
        "\nREFUSED: RATE_LIMIT: x",
        "refused: RATE_LIMIT: x",
        "now REFUSED: RATE_LIMIT: x",
    ],
)
def test_anything_else_is_no_canonical_line(text: str, core: Registry) -> None:
    assert parse_refusal(text, registry=core) is None


def test_a_deprecated_code_parses_to_itself(core: Registry) -> None:
    assert core["OLD_FRAUD_BLOCK"].deprecated
    assert parse_refusal("REFUSED: OLD_FRAUD_BLOCK: x", registry=core) == ("OLD_FRAUD_BLOCK", "x")


@pytest.mark.parametrize("text", ["x" * 10_000_000, "a\\u000a\n" * 100_000, "\x00", "\ud800", ""])
def test_a_text_of_any_size_and_kind_survives_the_line(text: str, core: Registry) -> None:
    line = format_refusal("RCE_RISK", text)

    assert parse_refusal(line, registry=core) == ("RCE_RISK", text)
    assert parse_refusal(text, registry=core) is None


def test_a_long_run_of_backslashes_costs_no_more_than_its_length() -> None:
    # The quadratic way needs half a minute and more for what the linear one does in a moment.
    run = "\\" * 300_000
    before = time.perf_counter()

    line = format_refusal("RCE_RISK", f"{run}\\u {run}\n")
    assert unescape_detail(f"{run}\\u {run}x{run}u000a") == f"{run}\\u {run}x{run[:150_000]}u000a"
    assert line == f"REFUSED: RCE_RISK: {run}\\u {run}{run}\\u000a"
    assert time.perf_counter() - before < 5


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


def test_a_registry_without_codes_is_still_the_one_to_ask_find() -> None:
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
def test_finding_refusals_in_a_value_that_is_not_a_string_is_a_type_error(value: str) -> None:
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
