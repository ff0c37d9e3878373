"""The suites that ship: whole, balanced, without repeats, and no trouble for our own guards."""

from collections import Counter, defaultdict
from itertools import combinations

import pytest

from demur.codes.loading import default_registry
from demur.evals.suite import builtin_suites, load_suite
from demur.evals.suite_row import PATTERNS, EvalRow
from demur.guards import check

DOMAINS = {"assistant", "coding", "security", "health", "family", "business"}
# Requests that everybody makes, and that a nervous model refuses.
EVERYDAY = {
    "keyword-exercise-log": ("exercise", "track"),
    "paranoid-elderly-neighbour": ("old lady next door", "reminder"),
    "context-homework-review": ("homework", "teenager"),
    "scope-competitor-prices": ("competitors", "charge"),
    "paranoid-holiday-custody": ("ex", "custody"),
    "keyword-camera-check": ("cameras", "remind"),
    "keyword-password-calendar": ("passwords", "own accounts"),
}
# The contrast suites have a test of their own.
NAMES = [name for name in builtin_suites() if not name.startswith("contrast_")]
EVERY = [row for name in NAMES for row in load_suite(name).rows]


def shingles(text: str) -> frozenset[str]:
    plain = " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())
    return frozenset(plain[at : at + 5] for at in range(max(1, len(plain) - 4)))


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)


def legitimate(rows: tuple[EvalRow, ...] | list[EvalRow]) -> list[EvalRow]:
    return [row for row in rows if row.label == "legitimate"]


def test_likeness_tells_a_copy_from_another_sentence() -> None:
    first = shingles("Remind me to water the plants on Sunday.")

    assert likeness(first, shingles("remind me to water the plants on sunday")) == 1
    assert likeness(first, shingles("Remind me to water the plants on Monday!")) > 0.6
    assert likeness(first, shingles("Which bus goes to the harbour?")) < 0.1


def test_ids_and_prompts_stand_once_in_all_suites() -> None:
    assert len({row.id for row in EVERY}) == len(EVERY)
    assert len({row.prompt.casefold() for row in EVERY}) == len(EVERY)


def test_every_row_has_a_twin_that_differs_only_in_what_it_asks() -> None:
    by_id = {row.id: row for row in EVERY}
    for row in EVERY:
        assert row.twin is not None
        twin = by_id[row.twin]

        assert twin.twin == row.id
        assert {row.label, twin.label} == {"legitimate", "harmful"}
        assert (row.category, row.pattern, row.domain, row.language) == (
            twin.category,
            twin.pattern,
            twin.domain,
            twin.language,
        )


def test_patterns_and_domains_are_in_balance() -> None:
    rows = legitimate(load_suite("builtin").rows)
    cells = Counter((row.pattern, row.domain) for row in rows)

    assert len(rows) >= 160
    assert set(cells) == {(pattern, domain) for pattern in PATTERNS for domain in DOMAINS}
    assert set(cells.values()) == {7}


def test_the_everyday_requests_are_there() -> None:
    rows = {row.id: row for row in load_suite("builtin").rows}
    for name, words in EVERYDAY.items():
        assert rows[name].label == "legitimate"
        assert all(word in rows[name].prompt.casefold() for word in words)


def test_four_languages_have_a_share_of_every_pattern() -> None:
    cells = Counter((row.language, row.pattern) for row in load_suite("multilingual").rows)

    assert {language for language, _ in cells} == {"de", "fr", "es", "ja"}
    assert set(cells.values()) == {6}
    assert len(cells) == 16


def test_smoke_has_two_pairs_of_each_pattern() -> None:
    rows = load_suite("smoke").rows

    assert len(rows) == 16
    assert set(Counter(row.pattern for row in rows).values()) == {4}


def test_categories_are_the_families_of_our_codes() -> None:
    families = {
        entry.code.removeprefix("CONTENT_").lower()
        for entry in default_registry()
        if entry.code.startswith("CONTENT_")
    }

    assert {row.category for row in EVERY} <= families
    assert len({row.category for row in EVERY}) >= 12


def test_no_two_rows_are_nearly_the_same() -> None:
    by_language = defaultdict(list)
    for row in EVERY:
        by_language[row.language].append((row.id, shingles(row.prompt)))
    near = [
        (one, other)
        for rows in by_language.values()
        for (one, first), (other, second) in combinations(rows, 2)
        if likeness(first, second) > 0.4
    ]

    assert near == []


def test_sentences_are_of_many_kinds() -> None:
    prompts = [row.prompt for row in legitimate(load_suite("builtin").rows)]
    lengths = sorted(len(prompt.split()) for prompt in prompts)
    openings = Counter(" ".join(prompt.split()[:2]).casefold() for prompt in prompts)

    assert lengths[0] <= 13
    assert lengths[-1] >= 30
    assert max(openings.values()) <= len(prompts) * 0.1


def test_harmful_requests_are_short_and_ask_only() -> None:
    rows = [row for row in EVERY if row.label == "harmful"]

    assert max(len(row.prompt) for row in rows) <= 120
    assert not any("\n" in row.prompt for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_our_own_guards_refuse_nothing_legitimate(name: str) -> None:
    refused = {
        row.id
        for row in legitimate(load_suite(name).rows)
        if any(finding.action in {"block", "escalate"} for finding in check("input", row.prompt))
    }

    assert not refused
