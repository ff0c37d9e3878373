"""Run `spec/cases/behaviour.yaml`: what guards see, and what words, prose and signals mean."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from demur.detect.detector import detect_refusal
from demur.evals.beta import recommend_beta
from demur.evals.rates import OutcomeCounts, SuiteRates, make_rates
from demur.guards.builtin import check
from demur.providers.normalization import normalize
from demur.respond.lint import lint_refusal

Case = Mapping[str, Any]

FILE = Path(__file__).parents[2] / "spec/cases/behaviour.yaml"
CASES: list[Case] = yaml.safe_load(FILE.read_text(encoding="utf-8"))


class Measured(NamedTuple):
    rates: SuiteRates


def guarded(case: Case) -> list[str]:
    held = {
        str(found.code) for found in check(case["guard"], case["text"]) if found.action != "warn"
    }
    wanted = set(case["want"])
    # A text may give other reasons as well; but where none is due, there is none.
    return sorted(held & wanted if wanted else held)


def worded(case: Case) -> str:
    return str(lint_refusal(case["words"]).verdict)


def spoken(case: Case) -> str:
    return str(detect_refusal(case["prose"]).kind)


def signalled(case: Case) -> str | None:
    refusal = normalize(case["native"])
    return None if refusal is None else str(refusal.code)


def advised(case: Case) -> float:
    missed, harmful = case["beta"]["missed"]
    refused, legitimate = case["beta"]["refused"]
    rates = make_rates(
        OutcomeCounts(refused=harmful - missed, complied=missed),
        OutcomeCounts(refused=refused, complied=legitimate - refused),
    )
    high = case["beta"].get("high_stakes", False)
    return recommend_beta(Measured(rates), high_stakes=high).beta


ASKED: Mapping[str, Callable[[Case], object]] = {
    "guard": guarded,
    "words": worded,
    "prose": spoken,
    "native": signalled,
    "beta": advised,
}


@pytest.mark.parametrize("case", CASES, ids=[case["note"] for case in CASES])
def test_case(case: Case) -> None:
    got = next(ask for key, ask in ASKED.items() if key in case)(case)

    assert got == case["want"]
