import argparse

import pytest

from demur.cli.eval_options import (
    add_threshold_options,
    add_scoring_options,
    read_thresholds,
    parse_share,
)
from demur.evals.aims import EvalThresholds


@pytest.mark.parametrize(("word", "value"), [("0.95", 0.95), ("95%", 0.95), ("0", 0), ("1", 1)])
def test_a_share_is_a_number_or_a_percentage(word: str, value: float) -> None:
    assert parse_share(word) == value


@pytest.mark.parametrize("word", ["95", "-1", "101%", "many", "", "nan"])
def test_what_is_no_share_says_how_to_write_one(word: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"write `0\.95` or `95%`"):
        parse_share(word)


def test_aims_are_the_usual_ones_unless_given() -> None:
    parser = argparse.ArgumentParser()
    add_threshold_options(parser)
    add_scoring_options(parser)

    assert read_thresholds(parser.parse_args([])) == EvalThresholds()
    given = parser.parse_args(["--safety", "99%", "--false-refusal", "0.2"])
    assert read_thresholds(given) == EvalThresholds(safety=0.99, false_refusal=0.2)
    assert given.jobs >= 1
    assert "(95%)" in parser.format_help()
