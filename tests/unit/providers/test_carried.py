from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.default import registry_or_core
from demur.codes.reason_code import ReasonCode
from demur.model.refusal import Refusal
from demur.model.refusal_source import RefusalSource
from demur.providers.carried import find_own_refusal, find_reason_code, find_envelope
from demur.providers.node import Node
from demur.providers.signal import SignalOutcome

REFUSING = st.sampled_from([str(entry.code) for entry in registry_or_core() if entry.refusal_class])


def envelope(of: str = "RCE_RISK", **changed: Any) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(Refusal.from_code(of, "eval"))
    return {**made, **changed}


@given(REFUSING, st.text(max_size=80), st.dictionaries(st.text(max_size=9), st.text(max_size=9)))
def test_an_envelope_comes_through_whole(code: str, detail: str, evidence: dict[str, str]) -> None:
    source = RefusalSource(name="guard", path="here", native={"n": 1})
    refusal = Refusal.from_code(code, detail, evidence=evidence, source=source, decision_id="dec_1")

    found = find_own_refusal("mcp", Node(msgspec.to_builtins(refusal), "refusal"))

    assert found is not None
    assert found.refusal == refusal
    assert found.code == code
    assert found.outcome is (SignalOutcome.REFUSAL if refusal.decided else SignalOutcome.NOT_JUDGED)


def test_a_refusal_object_is_handed_on_as_it_is() -> None:
    refusal = Refusal.from_code("RCE_RISK", "eval")

    found = find_own_refusal("openai_agents", Node({"refusal": refusal}))

    assert found is not None
    assert found.refusal is refusal


def test_an_object_with_the_fields_of_an_envelope_is_one() -> None:
    class Carrier:
        def __init__(self) -> None:
            self.__dict__.update(envelope())

    found = find_own_refusal("mcp", Node(Carrier()))

    assert found is not None
    assert found.refusal == Refusal.from_code("RCE_RISK", "eval")


def test_an_envelope_cannot_talk_a_hard_block_into_a_soft_one() -> None:
    found = find_own_refusal("mcp", Node(envelope(refusal_class="SOFT_BLOCK", decision_id="dec_1")))

    assert found is not None
    assert found.refusal == Refusal.from_code("RCE_RISK", "eval", decision_id="dec_1")


def test_a_code_of_another_organisation_keeps_what_its_envelope_says() -> None:
    line = "REFUSED: acme.com/KYC_EXPIRED: eval"
    theirs = envelope("PERMISSION_DENIED", code="acme.com/KYC_EXPIRED", line=line)

    found = find_own_refusal("mcp", Node(theirs))

    assert found is not None
    assert found.refusal is not None
    assert found.refusal.code == "acme.com/KYC_EXPIRED"
    assert found.refusal.refusal_class == "WORKFLOW_BLOCK"


def test_what_contradicts_itself_or_cannot_travel_is_no_envelope() -> None:
    assert find_own_refusal("mcp", Node(envelope(line="REFUSED: RCE_RISK: other"))) is None
    assert find_own_refusal("mcp", Node(envelope(evidence={"x": object()}))) is None
    allowing = envelope(
        refusal_class=None, code="acme.com/FINE", line="REFUSED: acme.com/FINE: eval"
    )
    assert find_own_refusal("mcp", Node(allowing)) is None
    assert (
        find_own_refusal("mcp", Node({"schema_version": "refusal.v2", "code": "RCE_RISK"})) is None
    )
    assert find_own_refusal("mcp", Node(None), Node(7), Node([])) is None


@given(REFUSING, st.text(max_size=80), st.sampled_from(["", "\nmore words", "\n"]))
def test_a_line_at_the_start_gives_its_code(code: str, detail: str, after: str) -> None:
    line = Refusal.from_code(code, detail).line

    found = find_own_refusal("nemo", Node(f"{line}{after}"))

    assert found is not None
    assert found.code == code
    assert found.refusal_class is registry_or_core()[code].refusal_class


@given(REFUSING, st.text(min_size=1, max_size=40).filter(str.strip), st.booleans())
def test_a_quoted_line_is_no_refusal(code: str, before: str, last: bool) -> None:
    """INVARIANT: a line that is quoted within a text is no refusal."""
    line = Refusal.from_code(code, "x").line
    quoted = f"said '{before.strip()}': {line}"

    assert find_own_refusal("nemo", Node(f"{quoted} and so on"), last=False) is None
    assert (
        find_own_refusal("nemo", Node(f"a\n{quoted}, and\nmore".replace("\r", "")), last=last)
        is None
    )


def test_words_that_refuse_may_end_in_the_line() -> None:
    text = "I can list the files.\nREFUSED: RATE_LIMIT: soon"

    found = find_own_refusal("nemo", Node(text), last=True)

    assert found is not None
    assert (found.code, found.detail) == ("RATE_LIMIT", "soon")
    assert find_own_refusal("nemo", Node(text)) is None


def test_what_a_tool_returned_is_read_by_its_envelope_alone() -> None:
    assert find_envelope("mcp", Node("REFUSED: RCE_RISK: eval")) is None
    assert find_envelope("mcp", Node({"refusal": "REFUSED: RCE_RISK: eval"})) is None
    found = find_envelope("mcp", Node({"refusal": envelope()}))
    assert found is not None
    assert found.refusal == Refusal.from_code("RCE_RISK", "eval")


def test_a_code_that_allows_and_a_legacy_phrase_are_no_refusals() -> None:
    allowed = f"REFUSED: {ReasonCode.SUCCESS_MEMORY_SIMILAR_ALLOW}: fine"

    assert find_own_refusal("nemo", Node(allowed)) is None
    assert find_own_refusal("nemo", Node("blocked by policy")) is None
    assert find_own_refusal("nemo", Node("REFUSED: NO_SUCH_CODE: x")) is None


def test_a_code_is_found_under_the_usual_names_and_the_strictest_wins() -> None:
    found = find_reason_code(
        "opa", Node({"reason_codes": ["RATE_LIMIT", "RCE_RISK", "unheard of"]})
    )

    assert found is not None
    assert (found.code, found.path) == ("RCE_RISK", "reason_codes[1]")
    assert find_reason_code("opa", Node("TOPIC_DENIED")) is not None
    assert find_reason_code("opa", Node({"code": "GUARDRAIL_UNAVAILABLE"})) is not None
    assert find_reason_code("opa", Node({"code": 7, "reason": "because"})) is None
    assert find_reason_code("opa", Node({"code": "SUCCESS_MEMORY_SIMILAR_ALLOW"})) is None


def test_a_code_that_says_nothing_was_judged_is_no_refusal() -> None:
    found = find_reason_code("opa", Node({"code": "STORAGE_UNAVAILABLE"}))

    assert found is not None
    assert found.outcome is SignalOutcome.NOT_JUDGED
