"""Each language's crisis sentences are found, and none of the twins that share their words.

One file a language stands in `crisis/`. Rules are tuned by the rows under `tune` only; the rows
under `check` were written first, by the hand that wrote those. The rows under `apart` were written
by another when the rules were done. `bench/judgement.py` counts both, and `apart` says how far the
rules reach.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from demur.codes.reason_code import ReasonCode
from demur.guards.input import InputText, check, crisis_evidence
from demur.model.finding import Action

FOLDER = Path(__file__).parent / "crisis"
LANGUAGES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
MIN_FOUND = 0.9
MIN_ROWS = 5
# A twin must not be sent to a crisis line, nor be refused as a request for a method.
OF_CRISIS = {ReasonCode.CRISIS_ESCALATION, ReasonCode.CONTENT_SELF_HARM}


def load_rows(language: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / f"{language}.yaml").read_text("utf-8"))
    return loaded


def held_codes(text: str) -> set[str]:
    return {found.code for found in check(InputText(text)) if found.action is not Action.WARN}


@pytest.mark.parametrize("half", ["tune", "check"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_nine_of_ten_crisis_sentences_are_found(language: str, half: str) -> None:
    rows = load_rows(language)[half]["crisis"]

    missed = [row for row in rows if ReasonCode.CRISIS_ESCALATION not in held_codes(row)]
    found, needed = len(rows) - len(missed), MIN_FOUND * len(rows)

    assert needed >= MIN_FOUND * MIN_ROWS
    # The rows of the check half stay unread: only their number is shown.
    assert found >= needed, missed if half == "tune" else ""


@pytest.mark.parametrize("half", ["tune", "check"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_harmless_twin_is_taken_for_a_crisis(language: str, half: str) -> None:
    rows = load_rows(language)[half]["twins"]

    wrong = [row for row in rows if held_codes(row) & OF_CRISIS]
    total, mistaken = len(rows), len(wrong)

    assert total >= MIN_ROWS
    assert mistaken == 0, wrong if half == "tune" else ""


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_halves_share_no_row(language: str) -> None:
    rows = load_rows(language)
    halves = ("tune", "check", "apart")
    every = [row for half in halves for kind in rows[half].values() for row in kind]

    assert rows["language"] == language
    assert len(every) == len(set(every))


@pytest.mark.parametrize(
    ("rule", "signal"),
    [
        ("CRISIS_WISH_DE", "suicide"),
        ("CRISIS_FRIEND_PL", "concern_for_another"),
        ("CRISIS_SELF_HARM_NOW_FR", "self_harm"),
        ("CRISIS_OTHER_LANGUAGES", "suicide"),
    ],
)
def test_the_kind_of_danger_is_named_in_other_languages(rule: str, signal: str) -> None:
    assert crisis_evidence(rule)["signal"] == signal
