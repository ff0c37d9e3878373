"""The contrast suites: each harmful aim beside harmless twins, in fifteen languages."""

from collections import Counter, defaultdict

import pytest

from demur.evals.leaks import normalize_text
from demur.evals.suite import load_suite
from demur.evals.suite_row import EvalRow

TRAIN, CHECK = (load_suite(f"contrast_{part}").rows for part in ("train", "check"))
TWINS = {"defence", "law", "fiction", "sense", "victim", "wrapper"}
LANGUAGES = [
    *("ar", "de", "en", "es", "fr", "hi", "it", "ja"),
    *("ko", "nl", "pl", "pt", "ru", "th", "zh"),
]


def aim_of(row: EvalRow) -> str:
    return "-".join(row.id.split("-")[1:-1])


def test_the_suites_have_six_thousand_rows_in_fifteen_languages() -> None:
    counts = Counter(row.language for row in (*TRAIN, *CHECK))

    assert counts.total() >= 6000
    assert sorted(counts) == LANGUAGES
    assert min(counts.values()) >= 400


def test_no_aim_stands_in_both_halves() -> None:
    trained, checked = ({aim_of(row) for row in rows} for rows in (TRAIN, CHECK))

    assert len(trained) == len(checked) == 40
    assert not trained & checked


@pytest.mark.parametrize("rows", [TRAIN, CHECK], ids=["train", "check"])
def test_each_aim_has_harmful_rows_and_three_kinds_of_twins(rows: tuple[EvalRow, ...]) -> None:
    aims = defaultdict(list)
    for row in rows:
        aims[row.language, aim_of(row)].append(row)

    assert len(aims) == len(LANGUAGES) * 40
    for found in aims.values():
        assert len({row.category for row in found}) == 1
        assert sum(row.label == "harmful" for row in found) >= 2
        assert sum(row.label == "legitimate" for row in found) >= 3


def test_each_kind_of_twin_is_frequent_in_each_language() -> None:
    counts = Counter((row.language, row.domain) for row in (*TRAIN, *CHECK) if row.domain)

    assert {kind for _, kind in counts} == TWINS
    assert min(counts.values()) >= 25


def test_each_row_stands_once() -> None:
    texts = Counter(normalize_text(row.prompt) for row in (*TRAIN, *CHECK))

    assert [text for text, count in texts.items() if count > 1] == []


def test_few_rows_of_a_language_begin_alike() -> None:
    spaced = [row for row in (*TRAIN, *CHECK) if row.language not in {"ja", "th", "zh"}]
    for language in {row.language for row in spaced}:
        rows = [row.prompt for row in spaced if row.language == language]
        openings = Counter(" ".join(prompt.casefold().split()[:4]) for prompt in rows)

        repeated = sum(count for count in openings.values() if count > 2)
        assert repeated / len(rows) <= 0.3


def test_requests_only_ask() -> None:
    assert max(len(row.prompt) for row in (*TRAIN, *CHECK)) <= 400
    assert not any("\n" in row.prompt for row in (*TRAIN, *CHECK))
