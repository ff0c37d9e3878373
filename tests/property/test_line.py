"""The refusal line, for every code and every string."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from demur.codes.entry import is_code
from demur.codes.refusal_line import KNOWN_CODES, find_refusals, format_refusal, parse_refusal
from demur.codes.registry import Registry

CORE = Registry.load()
PHRASES = sorted(CORE.phrases)
CODES = st.sampled_from(sorted(KNOWN_CODES))
ANY = st.characters(exclude_categories=())

# What the grammar cares about, to be met far more often than chance would have it.
PIECES = st.sampled_from(
    [
        *("\\", "\\\\", "\\\\\\", "u000a", "u0085", "u2028", "ud800", "u00e9", "u000A", "\\u"),
        *("\n", "\r\n", "\r", "\x00", "\x0b", "\x1c", "\x7f", "\x85", "\u2028", "\u2029"),
        *("\ud800", "\udfff", "\ud83d\ude00", "REFUSED:", "REFUSED: ", "RCE_RISK", "NOPE_NOPE"),
        *("REFUSED: RCE_RISK: x", ": ", ":", " ", "x", "acme.com/", *PHRASES[:5]),
    ]
)
TEXTS = st.text(ANY) | st.lists(PIECES | st.text(ANY, max_size=2), max_size=12).map("".join)
LINES = TEXTS.map(lambda text: "".join(text.splitlines()))
PREFIXES = st.sampled_from(
    ["", "2026-01-31T12:00:00Z WARN ", "[guard] ", '{"message": "', "ERROR:root:", "(", "a\tb\t"]
)


@given(CODES, TEXTS)
@example("RCE_RISK", "\\" * 7 + "u000a\n\\u2028\ud800")
def test_a_formatted_line_parses_to_the_same_code_and_detail(code: str, detail: str) -> None:
    assert parse_refusal(format_refusal(code, detail), registry=CORE) == (code, detail)


@given(CODES, TEXTS)
def test_a_formatted_line_is_one_line_and_encodes_to_utf8(code: str, detail: str) -> None:
    line = format_refusal(code, detail)

    assert line.splitlines() == [line]
    assert line.encode("utf-8").decode("utf-8") == line


@given(CODES, TEXTS, st.sampled_from(["\n", "\r\n", "\r"]))
def test_one_trailing_newline_is_ignored_and_two_are_not(
    code: str, detail: str, newline: str
) -> None:
    line = format_refusal(code, detail)

    assert parse_refusal(line + newline, registry=CORE) == (code, detail)
    assert parse_refusal(f"{line}{newline}\n\n", registry=CORE) is None


@given(CODES, TEXTS)
def test_a_detail_cannot_forge_a_second_refusal(code: str, detail: str) -> None:
    line = format_refusal(code, detail)

    assert find_refusals(line, registry=CORE) == [(code, detail, 0, len(line), False)]


@given(st.lists(st.tuples(PREFIXES, CODES, TEXTS), max_size=5), st.sampled_from(["\n", "\r\n"]))
def test_a_detail_cannot_forge_a_second_refusal_in_a_log_of_many_lines(
    rows: list[tuple[str, str, str]], newline: str
) -> None:
    quiet = "12:00 all is well"
    lines = [prefix + format_refusal(code, detail) for prefix, code, detail in rows]

    found = find_refusals(newline.join([quiet, *lines, quiet]), registry=CORE)
    assert [(one.code, one.detail) for one in found] == [(code, detail) for _, code, detail in rows]


def obvious_escape(detail: str) -> str:
    """Write a detail character by character, as the specification words it."""
    ours = re.compile(r"u(00[0189][0-9a-f]|007f|202[89]|d[89a-f][0-9a-f]{2})")
    written = ""
    for at, character in enumerate(detail):
        rest = detail[at:].lstrip("\\")
        if character == "\\":
            ambiguous = rest and (unsafe(rest[0]) or ours.match(rest))
            written += "\\\\" if ambiguous else "\\"
        else:
            written += f"\\u{ord(character):04x}" if unsafe(character) else character
    return written


def unsafe(character: str) -> bool:
    number = ord(character)
    control = number < 0x20 or 0x7F <= number <= 0x9F
    return control or number in {0x2028, 0x2029} or 0xD800 <= number <= 0xDFFF


@given(TEXTS)
def test_a_backslash_is_doubled_only_where_it_would_be_ambiguous(detail: str) -> None:
    assert format_refusal("RCE_RISK", detail) == f"REFUSED: RCE_RISK: {obvious_escape(detail)}"


@given(st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters="u")))
def test_foreign_escapes_stay_literal(detail: str) -> None:
    line = f"REFUSED: RCE_RISK: {detail}"

    assert format_refusal("RCE_RISK", detail) == line
    assert parse_refusal(line, registry=CORE) == ("RCE_RISK", detail)


@given(CODES, CODES, TEXTS)
def test_a_nested_refusal_stays_detail(outer: str, inner: str, detail: str) -> None:
    nested = format_refusal(inner, detail)

    assert parse_refusal(format_refusal(outer, nested), registry=CORE) == (outer, nested)


@given(TEXTS)
def test_no_string_raises(text: str) -> None:
    parsed = parse_refusal(text, registry=CORE)

    assert parsed is None or parsed.code in CORE
    assert all(found.code in CORE for found in find_refusals(text, registry=CORE))


@given(st.sampled_from(["", " ", "\t", "\n \u2028", "\xa0"]), TEXTS, st.sampled_from(PHRASES))
def test_text_that_starts_with_the_marker_never_reaches_the_phrases(
    space: str, text: str, phrase: str
) -> None:
    parsed = parse_refusal(f"{space}REFUSED:{text}{phrase}", registry=CORE)

    assert parsed is None or (not space and text.startswith(f" {parsed.code}"))


@given(st.from_regex(r"[A-Z][A-Z0-9_]{0,20}[A-Z0-9]", fullmatch=True), TEXTS)
def test_an_unknown_code_is_none(name: str, detail: str) -> None:
    line = f"REFUSED: {name}: {detail}"

    assert is_code(name)
    assert name in CORE or parse_refusal(line, registry=CORE) is None


def obvious_phrase(text: str) -> str | None:
    """Look at every phrase: the longest in the text wins, ties by code name."""
    inside = [phrase for phrase in CORE.phrases if phrase in text.casefold()]
    longest = max(map(len, inside), default=0)
    return min((CORE.phrases[one] for one in inside if len(one) == longest), default=None)


@given(st.lists(st.sampled_from(PHRASES) | TEXTS, max_size=4), st.booleans())
def test_a_legacy_text_means_what_its_longest_phrase_means(pieces: list[str], loud: bool) -> None:
    text = "".join(pieces).upper() if loud else "".join(pieces)
    text = text.replace("REFUSED:", "refused")

    code = obvious_phrase(text)
    assert parse_refusal(text, registry=CORE) == (None if code is None else (code, text))


@given(LINES | LINES.map("REFUSED:".__add__) | LINES.map("REFUSED: RCE_RISK".__add__))
def test_finding_agrees_with_parsing_on_a_line_that_starts_with_the_marker_or_has_none(
    line: str,
) -> None:
    if "REFUSED:" in line and not line.startswith("REFUSED:"):
        line = line[line.index("REFUSED:") :]

    parsed = parse_refusal(line, registry=CORE)
    found = [(one.code, one.detail) for one in find_refusals(line, registry=CORE)]
    assert found == ([] if parsed is None else [parsed])


@given(TEXTS)
def test_a_found_refusal_lies_where_it_says(text: str) -> None:
    for one in find_refusals(text, registry=CORE):
        line = text[one.start : one.end]
        assert line.splitlines() == [line]
        assert parse_refusal(line, registry=CORE) == (one.code, one.detail)
        assert one.legacy is not line.startswith("REFUSED: ")


@given(LINES, st.sampled_from(["", "12:00 ", "x", '"']), st.sampled_from(PHRASES))
def test_parsing_and_finding_agree_on_the_code_of_a_line(
    line: str, before: str, phrase: str
) -> None:
    """A wrong code is worse than none: parsing never guesses past a marker that finding reads."""
    for text in (f"{before}{line}", f"{before}REFUSED: {line} {phrase}", f"{before}{phrase}{line}"):
        parsed = parse_refusal(text, registry=CORE)
        found = find_refusals(text, registry=CORE)

        assert parsed is None or [refusal.code for refusal in found] == [parsed.code]
