import json
from typing import Any

import pytest

from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.policy.lumyn import translate_rule
from demur.policy.lumyn_draft import ImportDiagnostics, RuleDraft, UntranslatableError
from demur.policy.policy import Stage
from demur.source.reading import read_source

CORE = Registry.load()


def written(**changes: Any) -> dict[str, Any]:
    then = {"verdict": "DENY", "reason_codes": ["A_CODE"], **changes.pop("then", {})}
    return {"id": "R1", "stage": "HARD_BLOCKS", "if": {"evidence.a_gt": 1}, "then": then, **changes}


def carry(raw: Any) -> tuple[RuleDraft, ImportDiagnostics]:
    remarks = ImportDiagnostics()
    return translate_rule(read_source("p.yml", json.dumps(raw)), remarks, CORE), remarks


def kinds(remarks: ImportDiagnostics) -> list[str]:
    return [remark.kind for remark in remarks.found if remark.kind != "kinds"]


def test_a_rule_keeps_its_id_its_place_and_its_codes() -> None:
    draft, remarks = carry(written(then={"reason_codes": ["A_CODE", "B_CODE", "A_CODE"]}))

    assert draft == RuleDraft(
        "R1",
        Stage.HARD_BLOCKS,
        Verdict.DENY,
        {"evidence.a": {"gt": 1}},
        "p.yml:1:1",
        ("A_CODE", "B_CODE"),
    )
    assert kinds(remarks) == []


def test_a_rule_is_not_left_out_for_a_blank_code() -> None:
    draft, _ = carry(written(then={"reason_codes": [""]}))

    assert draft.codes == ("",)


@pytest.mark.parametrize(
    ("stage", "verdict", "to", "then", "said"),
    [
        ("REQUIREMENTS", "DENY", "REQUIREMENTS", "DENY", []),
        ("REQUIREMENTS", "ABSTAIN", "REQUIREMENTS", "ABSTAIN", []),
        ("REQUIREMENTS", "ESCALATE", "REQUIREMENTS", "ESCALATE", []),
        ("HARD_BLOCKS", "DENY", "HARD_BLOCKS", "DENY", []),
        ("HARD_BLOCKS", "ABSTAIN", "HARD_BLOCKS", "DENY", ["verdict"]),
        ("HARD_BLOCKS", "ESCALATE", "ESCALATIONS", "ESCALATE", ["moved"]),
        ("ESCALATIONS", "DENY", "HARD_BLOCKS", "DENY", ["moved"]),
        ("ESCALATIONS", "ABSTAIN", "REQUIREMENTS", "ABSTAIN", ["moved"]),
        ("ESCALATIONS", "ESCALATE", "ESCALATIONS", "ESCALATE", []),
        ("ALLOW_PATHS", "DENY", "HARD_BLOCKS", "DENY", ["moved"]),
        ("ALLOW_PATHS", "ABSTAIN", "REQUIREMENTS", "ABSTAIN", ["moved"]),
        ("ALLOW_PATHS", "ESCALATE", "ESCALATIONS", "ESCALATE", ["moved"]),
        ("ALLOW_PATHS", "ALLOW", "ALLOW_PATHS", "ALLOW", []),
    ],
)
def test_a_rule_stands_where_its_verdict_may_stand(
    stage: str, verdict: str, to: str, then: str, said: list[str]
) -> None:
    draft, remarks = carry(written(stage=stage, then={"verdict": verdict}))

    assert (draft.stage, draft.verdict, draft.shadow) == (to, then, False)
    assert kinds(remarks) == said


@pytest.mark.parametrize("stage", ["REQUIREMENTS", "HARD_BLOCKS", "ESCALATIONS"])
def test_an_allow_among_blocks_is_on_trial(stage: str) -> None:
    draft, remarks = carry(written(stage=stage, then={"verdict": "ALLOW"}))

    assert (draft.stage, draft.shadow) == ("ALLOW_PATHS", True)
    assert kinds(remarks) == ["on-trial"]
    assert remarks.found[-1].message.startswith(f"ALLOW in {stage} contradicts itself")


def test_an_allow_that_never_matched_is_on_trial() -> None:
    raw = written(**{"stage": "ALLOW_PATHS", "if": {"action_type": "a.b"}})
    raw["then"]["verdict"] = "ALLOW"
    draft, remarks = carry(raw)

    assert draft.shadow
    assert kinds(remarks) == ["never-matched", "on-trial"]


def test_a_block_that_never_matched_matches_now() -> None:
    draft, remarks = carry(written(**{"if": {"action_type": "a.b"}}))

    assert not draft.shadow
    assert kinds(remarks) == ["never-matched"]


def test_queries_become_what_is_missing() -> None:
    asked = [{"field": "evidence.a", "question": "What a?"}, {"field": "evidence.b"}]
    draft, remarks = carry(written(then={"queries": asked}))

    assert draft.missing == ("evidence.a", "evidence.b")
    assert kinds(remarks) == ["words-left-out"]


def test_what_a_condition_finds_missing_need_not_be_said_again() -> None:
    raw = written(**{"if": {"evidence.a_is": None}})
    raw["then"]["queries"] = [{"field": "evidence.a", "question": "What a?"}]

    assert carry(raw)[0].missing == ()


@pytest.mark.parametrize(
    "queries", [[{"question": "?"}], ["what?"], {"field": 5}, [{"field": " "}]]
)
def test_a_query_without_a_field_is_named(queries: Any) -> None:
    draft, remarks = carry(written(then={"queries": queries}))

    assert draft.missing == ()
    assert kinds(remarks) == ["words-left-out", "words-left-out"]
    assert "names no field" in remarks.found[-1].message


def test_an_allow_asks_for_nothing() -> None:
    then = {"verdict": "ALLOW", "queries": [{"field": "evidence.a"}]}
    draft, remarks = carry(written(stage="ALLOW_PATHS", then=then))

    assert draft.missing == ()
    assert remarks.found[-1].message.startswith(
        "queries and obligations of an ALLOW rule are left out"
    )


def test_an_obligation_to_bring_evidence_is_what_is_missing() -> None:
    duty = {"type": "required_evidence", "fields": ["evidence.a", 5, ""]}

    assert carry(written(then={"obligations": [duty]}))[0].missing == ("evidence.a",)


@pytest.mark.parametrize(
    ("duty", "words"),
    [
        ({"type": "check", "title": "Look twice", "details": "x"}, "`check: Look twice`"),
        ({"type": "log"}, "`log`"),
        ({"type": "required_evidence", "fields": []}, "`required_evidence`"),
        ("call me", "`call me`"),
    ],
)
def test_every_other_obligation_is_named_as_left_out(duty: Any, words: str) -> None:
    draft, remarks = carry(written(then={"obligations": [duty]}))

    assert draft.missing == ()
    assert kinds(remarks) == ["words-left-out"]
    assert words in remarks.found[-1].message


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ([], "p.yml:1:1: a rule is a mapping"),
        ({**written(), "wen": {}}, "unknown key `wen`\n  help: did you mean `when`?"),
        ({"id": "R", "stage": "HARD_BLOCKS"}, "p.yml:1:1: `then` is missing"),
        ({**written(), "then": []}, "`then` is a mapping"),
        ({"stage": "HARD_BLOCKS", "then": {}}, "`id` is missing"),
        (written(id=5), "`id` must be a text"),
        (written(stage="TRUST_PATHS"), "unknown stage `TRUST_PATHS`"),
        (written(then={"verdict": "QUERY"}), "unknown verdict `QUERY`"),
        (written(then={"reason_codes": []}), "names at least one reason code"),
        (written(then={"reason_codes": "A_CODE"}), "`reason_codes` is a list"),
        (written(then={"reason_codes": [1]}), "`reason_codes` holds texts"),
        (written(**{"if": {"evidence.a_gt": 2, "evidence.a_lt": 1}}), "no value of `evidence.a`"),
        (written(**{"if": {"amount_usd_lt": 0}}), "no value of `amount_usd`"),
        (written(**{"if": {"evidence.a_gt": "9e20"}}), "too large a number"),
    ],
)
def test_a_rule_without_a_form_here_is_refused_with_its_place(raw: Any, problem: str) -> None:
    with pytest.raises(UntranslatableError) as caught:
        carry(raw)

    assert problem in str(caught.value)
    assert str(caught.value).startswith("p.yml:1:")


def test_a_rule_without_codes_is_refused() -> None:
    raw = written()
    del raw["then"]["reason_codes"]
    with pytest.raises(UntranslatableError, match="at least one reason code"):
        carry(raw)
