import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.document import read_document
from demur.codes.entry import Entry, is_code, is_domain, local_name, name_problem
from demur.codes.registry import CORE_PATH, Registry
from demur.codes.vocabulary import Effect

CORE = Registry.load()


def test_the_local_name_drops_the_domain(core: Registry) -> None:
    entry = core["RCE_RISK"]._replace(code="acme.com/RCE_RISK")

    assert entry.local_name == "RCE_RISK"


def test_entries_written_as_json_are_the_registry_file_again(core: Registry) -> None:
    file = json.loads(CORE_PATH.read_text("utf-8"))

    written = [entry.as_json() for entry in core]
    assert json.loads(json.dumps(written)) == written == file["codes"]
    assert [list(row) for row in written] == [list(row) for row in file["codes"]]


def test_entries_written_as_json_read_back_as_the_same_registry(core: Registry) -> None:
    file = {
        **json.loads(CORE_PATH.read_text("utf-8")),
        "codes": [entry.as_json() for entry in core],
    }
    again = Registry(read_document("again.json", json.dumps(file)))

    assert list(again) == list(core)


@pytest.mark.parametrize("entry", CORE, ids=lambda entry: str(entry.code))
def test_every_core_entry_is_complete(entry: Entry) -> None:
    assert entry.title
    assert entry.title[0].isupper()
    assert entry.description.endswith(".")
    assert entry.surfaces
    assert 200 <= entry.http <= 599
    refuses = entry.effect is Effect.REFUSE
    assert (entry.refusal_class is not None) is refuses
    assert (entry.advice is not None) is refuses
    assert (entry.retry_scope is not None) is refuses
    assert not set(entry.examples.refuse) & set(entry.examples.allow)


@pytest.mark.parametrize(
    ("description", "summary"),
    [
        ("It is too late. Come back later.", "It is too late."),
        ("It is too late.", "It is too late."),
        ("Version 1.0 is too old", "Version 1.0 is too old"),
    ],
)
def test_the_summary_is_the_first_sentence(description: str, summary: str) -> None:
    assert CORE["RCE_RISK"]._replace(description=description).summary == summary


MEASURES = ("HIGH", "MEDIUM", "LOW", "CRITICAL", "SEVERE", "RISK", "CONFIDENCE", "SCORE", "LEVEL")
ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    "name",
    [
        "RCE_RISK",
        "OK",
        "A1",
        "A__B",
        "A" * 63,
        "acme.com/KYC_EXPIRED",
        "a-b.co.uk/KYC",
        "x-local/TRIAL",
        "1.2/AB",
    ],
)
def test_a_well_formed_name_is_a_code(name: str) -> None:
    assert is_code(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "A",
        "A" * 64,
        "_A",
        "A_",
        "1A",
        "rce_risk",
        "RCE-RISK",
        "RCE_RISK\n",
        "ÄRGER",
        "RCE_RISK٣",
        "/RCE_RISK",
        "acme.com/",
        "acme/KYC",
        "Acme.com/KYC",
        "acme.com//KYC",
        "a/b.com/KYC",
        "-acme.com/KYC",
        "acme-.com/KYC",
        "acme..com/KYC",
        "acme.com\n/KYC",
    ],
)
def test_any_other_name_is_none(name: str) -> None:
    assert not is_code(name)


def test_a_domain_is_a_dns_name_in_lower_case_of_at_most_253_characters() -> None:
    longest = ".".join(["a" * 62] * 4) + "bb"

    assert is_domain(longest)
    assert not is_domain(longest + "b")
    assert is_domain("x-local")
    assert not is_domain("localhost")


def test_the_local_name_follows_the_domain() -> None:
    assert local_name("acme.com/KYC_EXPIRED") == "KYC_EXPIRED"
    assert local_name("RCE_RISK") == "RCE_RISK"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("the model said no", "natural language"),
        ("Rate limit", "natural language"),
        ("rce_risk", "a code is"),
        (" RCE_RISK ", "a code is"),
        ("CHARGEBACK_RISK_87_PERCENT", "a number"),
        ("REFUND_500_USD", "a number"),
        ("REFUND_500USD", "a number"),
        ("SCORE_90PCT", "a number"),
        ("acme.com/LIMIT_3", "a number"),
        ("HIGH_RISK", "a measurement"),
        ("MEDIUM_CONFIDENCE", "a measurement"),
        ("RISK_HIGH", "a measurement"),
        ("RISK_SCORE", "a measurement"),
        ("HIGH__RISK", "a measurement"),
        ("CRITICAL", "a measurement"),
        ("acme.com/LOW_RISK", "a measurement"),
    ],
)
def test_the_problem_of_a_bad_name_is_named(name: str, problem: str) -> None:
    assert (name_problem(name) or "").startswith(problem)


@pytest.mark.parametrize(
    "name", ["FRAUD_MODEL_HIGH_RISK", "RCE_RISK", "OAUTH2_MISSING", "H1B_EXPIRED", "RISK_REDUCIBLE"]
)
def test_a_measure_or_digit_inside_a_reason_is_sound(name: str) -> None:
    assert name_problem(name) is None


def test_every_core_code_has_a_sound_name(core: Registry) -> None:
    assert [entry.code for entry in core if name_problem(entry.code)] == []


@given(st.lists(st.sampled_from(MEASURES), min_size=1, max_size=7))
def test_a_name_of_measure_words_alone_is_never_a_code(words: list[str]) -> None:
    """INVARIANT: a name made of measure words alone is never a code, whatever their order."""
    assert name_problem("_".join(words)) is not None


@given(ANY_TEXT)
def test_any_text_is_judged_and_a_sound_name_is_always_well_formed(text: str) -> None:
    assert is_code(text) or name_problem(text) is not None


@given(st.from_regex(r"[A-Z][A-Z0-9_]{0,61}[A-Z0-9]", fullmatch=True))
def test_every_name_of_the_grammar_is_well_formed(name: str) -> None:
    assert is_code(name)
    assert is_code(f"acme.com/{name}")
