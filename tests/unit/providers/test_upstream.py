from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lookalikes import error

from demur.codes.loading import registry_or_core
from demur.codes.reason_code import ReasonCode
from demur.model.refusal import Refusal, RefusalSource
from demur.providers import upstream
from demur.providers.node import Node
from demur.providers.normalization import normalize
from demur.providers.shape import shape_of
from demur.providers.signals import SignalOutcome, load_system
from demur.providers.upstream import (
    drop_missing,
    find_envelope,
    find_own_refusal,
    find_reason_code,
    match_exception,
)


def test_no_word_means_two_things_to_two_providers() -> None:
    meanings: dict[str, set[str | None]] = {}
    for name, field in upstream._FINISH_REASONS:
        for value in load_system(name)[field].values:
            word = value.value.casefold()
            meanings.setdefault(word, set()).add(value.code)

    assert {word: codes for word, codes in meanings.items() if len(codes) > 1} == {}


@pytest.mark.parametrize(
    "read",
    [upstream.read_finish_reason, upstream.read_block_reason, upstream.read_category],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("nothing", [None, 7, [], {}])
def test_a_value_without_text_carries_no_refusal(read: Any, nothing: Any) -> None:
    assert read("litellm", Node(nothing)) is None


def test_a_rating_refines_only_what_is_vague() -> None:
    ratings = Node([{"category": "HARM_CATEGORY_HARASSMENT", "blocked": True}])

    vague = upstream.read_finish_reason("litellm", Node("SAFETY"), ratings)
    exact = upstream.read_finish_reason("litellm", Node("SPII"), ratings)
    fine = upstream.read_finish_reason("litellm", Node("STOP"), ratings)

    assert vague is not None
    assert vague.code == "CONTENT_HARASSMENT"
    assert exact is not None
    assert exact.code == "PII_DETECTED"
    assert fine is not None
    assert fine.outcome is SignalOutcome.NOT_A_REFUSAL


def test_a_rating_that_is_vague_itself_refines_nothing() -> None:
    ratings = Node([{"category": "HARM_CATEGORY_UNSPECIFIED", "blocked": True}])
    found = upstream.read_block_reason("litellm", Node("OTHER"), ratings)

    assert found is not None
    assert found.code == "FILTERED_UNSPECIFIED"


def test_the_filter_decides_by_what_it_did_and_not_by_what_it_saw() -> None:
    seen = Node({"hate": {"detected": True, "filtered": False, "severity": "high"}})
    newer = Node({"brand_new": {"filtered": True}})

    assert upstream.read_filter_results("litellm", seen) is None
    found = upstream.read_filter_results("litellm", newer)
    assert found is not None
    assert found.code == "FILTERED_UNSPECIFIED"


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


def test_a_contradictory_or_unserializable_envelope_is_ignored() -> None:
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


def test_a_tool_result_is_read_only_by_its_envelope() -> None:
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


MODULES = {
    "guardrails_ai": "guardrails.errors",
    "langchain": "langchain_core.exceptions",
    "litellm": "litellm.exceptions",
    "llm_guard": "llm_guard.exception",
    "microsoft_agents": "semantic_kernel.exceptions",
    "openai_agents": "agents.exceptions",
    "pydantic_ai": "pydantic_ai.exceptions",
}
LISTED = [
    (name, value.value, value.code)
    for name in MODULES
    for value in load_system(name)["exception"].values
    if value.code is not None
]


@pytest.mark.parametrize(("name", "kind", "code"), LISTED)
def test_each_listed_exception_is_a_refusal_even_without_any_field(
    name: str, kind: str, code: str
) -> None:
    refusal = normalize(error(MODULES[name], kind, "stopped"))

    assert refusal is not None
    assert refusal.code == code


def test_an_exception_is_known_by_the_classes_above_it_too() -> None:
    below = error("acme.errors", "AcmeFiltered", "no", base="ContentPolicyViolationError")
    found = match_exception("litellm", shape_of(below))

    assert found is not None
    assert found.kind == "ContentPolicyViolationError"
    assert found.to_signal().native == "ContentPolicyViolationError"


def test_only_an_exception_matches_an_exception_rule() -> None:
    assert match_exception("litellm", shape_of({"type": "ContentPolicyViolationError"})) is None
    assert match_exception("litellm", shape_of(KeyError("x"))) is None


def test_missing_values_are_dropped() -> None:
    assert drop_missing({"a": None, "b": 0, "c": ""}) == {"b": 0, "c": ""}
