"""Triage counts exactly what `find_refusals` finds, however a log is cut."""

import io
import json
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random  # noqa: TID251 - hypothesis seeds it

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.property_runs import examples

from demur.codes.entry import is_code
from demur.codes.refusal_line import find_refusals
from demur.codes.registry import Registry
from demur.triage import blocks
from demur.triage.cluster import scan_batch
from demur.triage.counts import (
    CANONICAL,
    LEGACY,
    MAX_UNKNOWN_CODES,
    UNKNOWN,
    UNMAPPED,
    CountKey,
    RefusalCounts,
    TriageOptions,
    merge_counts,
)
from demur.triage.line_reader import LineReader
from demur.triage.prefilter import ENGINES
from demur.triage.scan import scan_lines, scan_range, scan_stream

pa = pytest.importorskip("pyarrow")

CORE = Registry.load()
CODES = [str(entry.code) for entry in CORE]
PHRASES = sorted(CORE.phrases)
TEXT = TriageOptions(format="text")

SWAPS = {
    "s": "\u017f",
    "k": "\u212a",
    "ss": "\u00df",
    "fi": "\ufb01",
    "ffi": "\ufb03",
    "st": "\ufb06",
}
BREAKS = ["\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
BEFORE = [
    "",
    " ",
    "x",
    "_",
    "\u00e9",
    "\u2192",
    "\x1b[31m",
    "\x1b[0m",
    "\x1b[1;31m",
    "\x1b[38;5;9m",
    "\x00",
    "7",
    "m",
]
AFTER = [": ", ":", "", ":x", " ", ": a\\u000a", "\x1b[0m", ": \x1b[0m", "_: ", ":\x1b[0m", ":\t"]
NAMES = [
    *CODES[:5],
    "NOPE_NOPE",
    "A",
    "lower",
    "acme.com/OWN",
    "x-local/OWN",
    "a..b/OWN",
    "Q" * 63,
    "Q" * 64,
    "A_",
    "_A",
    "POLICY_VIOLATION",
]


@st.composite
def refusals(draw: st.DrawFn) -> str:
    return (
        draw(st.sampled_from(BEFORE))
        + "REFUSED:"
        + draw(st.sampled_from([" ", "", "  "]))
        + draw(st.sampled_from(NAMES))
        + draw(st.sampled_from(AFTER))
    )


@st.composite
def phrases(draw: st.DrawFn) -> str:
    phrase = draw(st.sampled_from(PHRASES))
    for plain, odd in SWAPS.items():
        if plain in phrase and draw(st.integers(0, 3)) == 0:
            phrase = phrase.replace(plain, odd, draw(st.integers(1, 2)))
    spaces = draw(st.sampled_from([" ", " ", " ", "  ", "\t", " \t "]))
    phrase = phrase.replace(" ", spaces, draw(st.integers(1, 3)))
    denied = draw(st.sampled_from(["{}"] * 4 + ["no {}", "not  {}", "{}: none", "{}s=0"]))
    phrase = denied.format(phrase)
    way = draw(st.integers(0, 3))
    return phrase.upper() if way == 1 else phrase.title() if way == 2 else phrase


WORDS = st.sampled_from(
    [
        "request",
        "12:00 INFO",
        "refused:",
        "REFUSED",
        "policy_v",
        "blocked by",
        "Stra\u00dfe",
        "\x1b[33m",
    ]
)
PARTS = st.one_of(
    *(refusals().map(lambda text: text.encode()), phrases().map(lambda text: text.encode())),
    *(
        st.sampled_from(BREAKS).map(lambda text: text.encode()),
        WORDS.map(lambda text: text.encode()),
    ),
    *(
        st.just(b" "),
        st.binary(max_size=3),
        st.just(b"\n"),
        st.sampled_from([b"\xc2", b"\xe2\x80", b"\xff"]),
    ),
)
LOGS = st.lists(PARTS, max_size=14).map(b"".join)


def expected(log: bytes) -> Counter[tuple[str, str]]:
    text = log.decode("utf-8", "surrogateescape")
    return Counter(
        (each.code, LEGACY if each.legacy else CANONICAL)
        for each in find_refusals(text, registry=CORE)
    )


def counted(counts: RefusalCounts) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for key, number in counts.rows.items():
        found[key.code, key.kind] += number
    return found


def known(counts: RefusalCounts) -> Counter[tuple[str, str]]:
    return Counter(
        {about: n for about, n in counted(counts).items() if about[1] in {CANONICAL, LEGACY}}
    )


@given(LOGS)
@settings(max_examples=examples(150))
@example(b"REFUSED: x REFUSED: RCE_RISK: y")
@example(b"REFUSED: RCE_RISK: a\rREFUSED: RATE_LIMIT: b\x0bblocked by policy")
@example("REFUSED: RCE_RISK: a\u2028too many requests".encode())
@example(b"no loop detected\nnot\tloop detected, loop detected\nloop detected: none\n")
@example(b"too  many\trequests\nblocked by\t \tpolicy\n")
@example("REQUE\u017fT\u017f\ntoo many\t\u017f too  many reque\u017ft\u017f".encode())
@example("TOO MANY REQUE\u017fT\u017f\nmi\u00dfing required scope\n\u212a".encode())
@example(b"\x1b[31mREFUSED: RCE_RISK\x1b[0m\n")
@pytest.mark.parametrize("engine", ENGINES)
def test_triage_agrees_with_the_finder(engine: str, log: bytes) -> None:
    assert known(scan_lines(log, TriageOptions(format="text", engine=engine))) == expected(log)


@given(st.lists(LOGS, min_size=1, max_size=4), st.integers(1, 60))
@settings(max_examples=examples(25))
def test_a_log_full_of_refusals_is_counted_like_any_other(logs: list[bytes], often: int) -> None:
    """INVARIANT: where newlines alone break lines, a plain first marker decides its line."""
    dense = b"12:00 REFUSED: RCE_RISK: x\n" * often
    log = dense + b"\n".join(logs) + b"\n" + dense
    stream = io.BytesIO(b"REFUSED: RCE_RISK: x\n" * 60_000 + log)

    counts = scan_stream(stream, "", TEXT)  # type: ignore[arg-type]

    assert known(counts) == expected(log) + Counter({("RCE_RISK", CANONICAL): 60_000})


# Lines as whole logs have them, and as they break what reads many lines at once.
KINDS = [
    b"2026-11-15T12:00:00Z WARN guard[3]: REFUSED: RCE_RISK: worker queue",
    b"12:00 REFUSED: RATE_LIMIT: a REFUSED: RCE_RISK: b",
    b"REFUSED: NOPE_NOPE: no such code",
    b"REFUSED: RCE_RISK",
    b"REFUSED: too risky: no code, rate limit exceeded",
    b"xREFUSED: RCE_RISK: no boundary",
    b"\x1b[1;31mREFUSED: RCE_RISK: red\x1b[0m",
    b"12:00 INFO too many requests from 7",
    b"12:00 INFO no too many requests, Too Many  Requests",
    b"12:00 INFO worker queue stream",
    b"12:00 INFO \xe2\x80\x99 \xff\xc3 REFUSED: RCE_RISK: broken \xe2\x80",
    "12:00 too many reque\u017ft\u017f, Stra\u00dfe".encode(),
    b"REFUSED: RCE_RISK: a\rREFUSED: RATE_LIMIT: b\x0bblocked by policy",
    rb'{"message": "REFUSED: RCE_RISK: \u0061", "log": "too\u0020many requests"}',
    b"a" * (blocks.BLOCK_SIZE + 7) + b" REFUSED: RCE_RISK: long",
    b"b" * (2 * blocks.BLOCK_SIZE) + b" too many requests",
    b"",
]


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 400)), min_size=1, max_size=6),
    st.sampled_from([b"\n", b"\r\n"]),
    st.randoms(use_true_random=False),
    st.sampled_from(list(ENGINES)),
    st.booleans(),
)
@settings(max_examples=examples(30))
def test_many_lines_at_once_are_counted_as_the_finder_counts_each(
    parts: list[tuple[bytes, int]], newline: bytes, rng: Random, engine: str, dense: bool
) -> None:
    lines = [kind for kind, often in parts for _ in range(often if len(kind) < 1000 else 1)]
    if dense:
        lines += [KINDS[0]] * 5000
    rng.shuffle(lines)
    log = newline.join(lines) + newline
    reader = LineReader(CORE)

    counts = scan_stream(io.BytesIO(log), "", TEXT._replace(engine=engine))  # type: ignore[arg-type]

    want: Counter[tuple[str, str]] = Counter()
    for line, often in Counter(lines).items():
        for found in reader.find(line.decode("utf-8", "surrogateescape")):
            want[found.code, reader.found_kind(found)] += often
    assert counted(counts) == want


@given(LOGS)
def test_unknown_codes_are_those_that_are_well_formed_and_nobody_holds(log: bytes) -> None:
    unknown = [code for code, kind in counted(scan_lines(log, TEXT)) if kind == UNKNOWN]

    assert all(is_code(code) and code not in CORE for code in unknown)
    found = {each.code for each in LineReader(CORE).find(log.decode("utf-8", "surrogateescape"))}
    assert set(unknown) == {code for code in found if code not in CORE}


@given(LOGS, st.lists(st.integers(0, 400), max_size=4), st.integers(0, 3), st.booleans())
def test_any_split_into_ranges_gives_the_same(
    log: bytes, cuts: list[int], samples: int, timed: bool
) -> None:
    """INVARIANT: any split of a log gives the same counts."""
    options = TriageOptions(format="text", samples=samples, timed=timed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        path.write_bytes(log)
        edges = sorted({0, len(log), *(min(cut, len(log)) for cut in cuts)})
        parts = [
            scan_range(path, low, high, options)
            for low, high in zip(edges, [*edges[1:], len(log)], strict=True)
        ]
        whole = scan_range(path, 0, len(log), options)

    joined = merge_counts(parts, samples=samples)
    assert joined.rows == whole.rows
    assert joined.samples == whole.samples
    assert (joined.size, joined.cut) == (whole.size, whole.cut) == (len(log), 0)
    assert (
        merge_counts([merge_counts(parts[:2], samples=samples), *parts[2:]], samples=samples).rows
        == whole.rows
    )


@given(LOGS, st.integers(1, 5))
def test_any_split_into_batches_gives_the_same(log: bytes, size: int) -> None:
    lines = log.split(b"\n")
    batches = [
        pa.record_batch({"line": pa.array(lines[at : at + size], pa.binary())})
        for at in range(0, len(lines), size)
    ]

    parts = [scan_batch(batch, TEXT) for batch in batches]

    assert counted(merge_counts(parts)) == counted(scan_lines(log, TEXT))


SOUNDS = st.sampled_from(
    [
        b"request 7 denied ",
        b"REFUSED: too risky ",
        b"not allowed ",
        b"no call blocked ",
        b"rejected",
    ]
)
SPOKEN = st.lists(st.one_of(PARTS, SOUNDS), max_size=14).map(b"".join)


@given(SPOKEN, st.sampled_from(["text", "json"]))
def test_a_suggestion_is_no_counted_refusal(log: bytes, form: str) -> None:
    """INVARIANT: a suggested line holds no refusal that triage counts."""
    options = TriageOptions(format=form, suggest=True, samples=1)
    counts = scan_lines(log, options)

    plain = scan_lines(log, options._replace(suggest=False))
    assert {key: n for key, n in counts.rows.items() if key.kind != UNMAPPED} == plain.rows
    for (_, kind), [sample] in counts.samples.items():
        if kind == UNMAPPED:
            line = log[sample.offset :].split(b"\n")[0].decode("utf-8", "surrogateescape")
            assert find_refusals(line, registry=CORE) == []


@given(st.lists(st.integers(0, 3 * MAX_UNKNOWN_CODES), max_size=30))
@settings(max_examples=examples(10))
def test_of_too_many_unknown_codes_the_same_stay_whatever_the_order(cuts: list[int]) -> None:
    rows = {
        CountKey(f"MADE_UP_{number}", UNKNOWN): number + 1
        for number in range(3 * MAX_UNKNOWN_CODES)
    }
    items = list(rows.items())
    edges = [0, *sorted(cuts), len(items)]
    parts = [RefusalCounts(rows=dict(items[low:high])) for low, high in pairwise(edges)]

    joined = RefusalCounts()
    for part in reversed(parts):
        joined = merge_counts([joined, part])

    assert joined.rows == merge_counts([RefusalCounts(rows=rows)]).rows
    assert len(joined.rows) == MAX_UNKNOWN_CODES + 1
    assert joined.count_kinds(UNKNOWN) == sum(rows.values())


@given(st.lists(st.tuples(LOGS, st.booleans()), min_size=1, max_size=5))
def test_in_json_lines_the_message_says_what_its_first_line_says(
    messages: list[tuple[bytes, bool]],
) -> None:
    texts = [(raw.decode("utf-8", "replace"), escaped) for raw, escaped in messages]
    log = "\n".join(
        json.dumps(
            {"user_text": "REFUSED: RCE_RISK: no", "message": f"guard {text}"}, ensure_ascii=escaped
        )
        for text, escaped in texts
    )
    counts = scan_lines(log.encode(), TriageOptions(format="json"))

    want: Counter[tuple[str, str]] = Counter()
    for text, _ in texts:
        first = next(iter(f"guard {text}".splitlines()))
        want += expected(first.encode("utf-8", "surrogateescape"))
    assert known(counts) == want
