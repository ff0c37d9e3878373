import json

import pytest
from commandline import demur
from desk import LARGE, SMALL, decided, setting

pytestmark = pytest.mark.usefixtures("desk")


def learn(*words: object) -> str:
    ran = demur("learn", "last", *words)
    assert ran.status == 0, ran.err
    return ran.out


def test_a_failure_holds_later_requests_back() -> None:
    decided(SMALL)
    out = learn("--outcome", "failure", "--note", "paid twice", "--by", "mary")
    first, follows, taken_back = out.splitlines()

    assert first == "learned: failure of refund, severity 3, tenant default"
    assert follows == ("  similar requests are denied from similarity 0.95, and escalate from 0.85")
    assert taken_back.startswith("  memory 01")
    assert decided(SMALL)["reason_codes"] == ["FAILURE_MEMORY_SIMILAR_BLOCK"]


def test_a_mild_failure_only_asks_a_person() -> None:
    decided(SMALL)
    out = learn("--outcome", "failure", "--severity", 1)

    assert "  similar requests escalate from similarity 0.85\n" in out
    assert decided(SMALL)["reason_codes"] == ["FAILURE_MEMORY_SIMILAR_ESCALATE"]


def test_a_success_lifts_nothing_unless_the_operator_says_so() -> None:
    decided(LARGE)
    out = learn("--outcome", "success")
    before = decided(LARGE)["verdict"]
    setting("[memory]\nlift = true")

    assert "  stored without effect; set `lift` under [memory] to let it lift escalations\n" in out
    assert "escalated requests are allowed from similarity 0.98" in learn("--outcome", "success")
    assert (before, decided(LARGE)["verdict"]) == ("ESCALATE", "ALLOW")


def test_an_experience_can_expire() -> None:
    decided(SMALL)
    ran = learn("--outcome", "failure", "--expires", 30, "--json")
    learned = json.loads(ran)

    assert learned["expires_at"] > learned["created_at"]
    assert "vector" not in learned
    assert ", tenant default, until " in learn("--outcome", "failure", "--expires", 30)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--severity", "9"], "a severity is a number from 1 to 5, not `9`"),
        (["--expires", "0"], "--expires must be from 1 to 36500 days, not `0`"),
        (["--note", "x" * 3000], "a note has at most 2000 characters"),
        (["--tenant", "acme"], "there is no decision yet"),
    ],
)
def test_bad_words_say_what_is_meant(words: list[str], problem: str) -> None:
    decided(SMALL)
    ran = demur("learn", "last", "--outcome", "failure", *words)

    assert ran.status == 1
    assert problem in ran.err


def test_nothing_can_be_learned_from_what_was_erased() -> None:
    decided(SMALL)
    demur("audit", "erase", "--subject", "agent:billing", "--yes")

    assert (
        "was erased: nothing can be learned" in demur("learn", "last", "--outcome", "failure").err
    )
