import json

import pytest
from commandline import demur


@pytest.mark.parametrize(
    ("words", "status", "output"),
    [
        (["ALLOW"], 0, "ALLOW_EXECUTE"),
        (["DENY", "RCE_RISK"], 3, "REFUSE_WITH_PATH"),
        (["ESCALATE", "SCOPE_MISSING", "--missing", "target"], 4, "NEED_CONTEXT"),
        (["ALLOW", "DESTRUCTIVE_ACTION", "--constraint", "dry_run"], 5, "ALLOW_CONSTRAINED"),
        (["ABSTAIN", "GUARDRAIL_UNAVAILABLE"], 6, "REFUSE_WITH_PATH"),
        (["ESCALATE", "SCOPE_MISSING", "--missing", "x", "--last-attempt"], 3, "REFUSE_WITH_PATH"),
    ],
)
def test_the_status_says_what_to_do(words: list[str], status: int, output: str) -> None:
    ran = demur("classify", *words)

    assert ran.status == status
    assert ran.out.startswith(output)


def test_could_not_judge_is_told_apart_from_refused() -> None:
    assert "could not judge" in demur("classify", "ABSTAIN", "INTERNAL_ERROR").out
    assert "could not judge" not in demur("classify", "DENY", "RCE_RISK").out


def test_json_holds_the_whole_decision() -> None:
    decision = json.loads(demur("classify", "ESCALATE", "CRISIS_ESCALATION", "--json").out)

    assert decision["refusal_class"] == "WORKFLOW_BLOCK"
    assert decision["obligations"] == ["crisis_resources", "human_review"]
    assert decision["next_step"] == "escalate_operator"


def test_what_must_happen_is_shown() -> None:
    assert (
        "must crisis_resources, human_review"
        in demur("classify", "ESCALATE", "CRISIS_ESCALATION").out
    )


def test_an_impossible_combination_is_an_error_with_help() -> None:
    ran = demur("classify", "DENY")

    assert ran.status == 1
    assert "needs at least one reason code" in ran.err
    assert "help:" in ran.err
