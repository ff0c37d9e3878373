"""Guarded streams, for every text and every way to cut it."""

import base64
import codecs

from hypothesis import example, given
from hypothesis import strategies as st
from support.fake_secrets import LETTERS, MADE, drawn

from demur.guards.output import OutputConfig, OutputText, check, make_scanner
from demur.guards.output_stream import OnBlock, StreamConfig, guard_stream
from demur.guards.text_rules import builtin_rules
from demur.model.finding import Finding

INSTRUCTIONS = "You are Aria, the assistant of Blue Harbour Bank, and you never mention the rates."
CONFIG = OutputConfig(system_prompt=INSTRUCTIONS, leak_words=5, canary="CANARY-77")
ROWS = [row for rule in builtin_rules("output").rules for row in (*rule.refuse, *rule.allow)]

# What the searches care about, whole and in parts, and what folding treats in a special way.
PIECES = st.sampled_from(
    [
        *ROWS,
        *ROWS[::7],
        *MADE.values(),
        *(codecs.encode(row, "rot13") for row in ROWS[:4]),
        *(base64.b64encode(row.encode()).decode() for row in ROWS[:4]),
        *("\u200b".join(row) for row in ROWS[:4]),
        *(row.replace(" ", " **", 1) for row in ROWS[::5]),
        *("**", "# ", "`", "> ", "Here is a", "if you want to ", "To "),
        *("password = ", "api_key: ", '"', "Authorization: Bearer ", "the password is "),
        *("4929 3813 3266 4717", "4111", "GB94 DEMO 2047 1583 9062 14", "899-71-3364", "card "),
        *("-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----", "eyJhbGciOiJIUzI1NiJ9."),
        *(INSTRUCTIONS, INSTRUCTIONS[20:60], "CANARY-77", "CANARY", "postgres://bob:", "@db/x"),
        *(
            " ",
            "  ",
            "\n",
            " " * 60,
            " " * 256,
            " " * 300,
            "\u200b" * 40,
            "\u0301",
            "\u039d",
            "\u039c",
            "é",
        ),
        *(
            "\ud800",
            "\U0001f600",
            "=",
            ":",
            "-",
            ".",
            "/",
            "...",
            "x",
            "the ",
            drawn(20),
            drawn(60),
        ),
        *(drawn(300, LETTERS[:26]), drawn(4200)),
    ]
)
ANY = st.characters(exclude_categories=())
CUT = PIECES.flatmap(lambda piece: st.integers(0, len(piece)).map(lambda end: piece[:end]))
TEXTS = st.lists(PIECES | CUT | st.text(ANY, max_size=3), max_size=10).map("".join)
SIZES = st.lists(st.integers(0, 90), min_size=1, max_size=12).filter(any)


def cut(text: str, sizes: list[int]) -> list[str]:
    """Return the text in chunks of these sizes, over and over."""
    chunks = []
    start = number = 0
    while start < len(text):
        size = sizes[number % len(sizes)]
        chunks.append(text[start : start + size])
        start += size
        number += 1
    return chunks


def whole(text: str) -> list[Finding]:
    return list(check(OutputText(text), CONFIG))


def stopping(text: str) -> list[tuple[int, int]]:
    """Return the spans that must not leave."""
    config = StreamConfig()
    return [
        (finding.span.start, finding.span.end)
        for finding in whole(text)
        if finding.span and finding.action in config.stops
    ]


@given(TEXTS, SIZES)
@example(f"{MADE['json web token']} {ROWS[0]}" + " " * 600 + ROWS[0], [1])
def test_the_pieces_of_a_text_make_no_difference(text: str, sizes: list[int]) -> None:
    """INVARIANT: what is found does not depend on the pieces in which a text comes."""
    held = make_scanner(CONFIG)
    found: list[Finding] = []
    for chunk in cut(text, sizes):
        before = held.decided_until
        new = list(held.feed(chunk))
        assert all(finding.span and finding.span.start >= before for finding in new)
        found += new
    found += held.feed("", final=True)

    assert found == whole(text)


@given(TEXTS, SIZES)
def test_a_stopped_stream_is_the_text_before_the_first_span(text: str, sizes: list[int]) -> None:
    """INVARIANT: no character of a span that stops a stream ever leaves."""
    config = StreamConfig(output=CONFIG, on_block=OnBlock.END)
    stream = guard_stream(cut(text, sizes), config)
    left = "".join(stream)
    spans = stopping(text)

    assert left == (text[: spans[0][0]] if spans else text)
    assert (stream.result.refusal is None) == (not spans)
    assert stream.result.released == len(left)


@given(TEXTS, SIZES)
def test_a_masked_stream_is_the_text_without_the_spans(text: str, sizes: list[int]) -> None:
    """INVARIANT: what is not kept back leaves in order and exactly once."""
    config = StreamConfig(output=CONFIG, on_block=OnBlock.REDACT, mask="")
    stream = guard_stream(cut(text, sizes), config)
    masked = {place for start, end in stopping(text) for place in range(start, end)}
    kept = [character for place, character in enumerate(text) if place not in masked]

    assert "".join(stream) == "".join(kept)
    assert list(stream.result.findings) == whole(text)
