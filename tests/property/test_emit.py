"""Each format keeps a refusal, for every code, any detail and any evidence."""

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.emit.envelope import from_envelope, from_problem, to_envelope, to_problem
from demur.emit.events import from_cloudevents, from_ocsf, to_cloudevents, to_ocsf
from demur.emit.formats import EMIT_FORMATS
from demur.emit.hosts import (
    HOOK_EVENTS,
    from_claude_code,
    from_mcp,
    from_mcp_denial,
    from_openai,
    to_claude_code,
    to_mcp,
    to_mcp_denial,
    to_openai,
    to_openai_part,
)
from demur.model.refusal import Refusal, RefusalSource

CORE = Registry.load()
CODES = st.sampled_from([entry.code for entry in CORE if entry.refusal_class])
DETAILS = st.text(st.characters(exclude_categories=()), max_size=60)
PLAIN = st.text(max_size=12)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3),
    max_leaves=6,
)
SOURCES = st.builds(
    RefusalSource,
    name=st.text(min_size=1, max_size=12),
    path=st.none() | PLAIN,
    native=JSON,
    served_by=st.none() | PLAIN,
    confidence=st.none() | st.floats(0, 1),
    request_id=st.none() | PLAIN,
)
REFUSALS = st.builds(
    Refusal.from_code,
    CODES,
    DETAILS,
    evidence=st.dictionaries(PLAIN | st.just("retry_after"), JSON, max_size=3),
    surface=st.none() | st.sampled_from(Surface),
    source=st.none() | SOURCES,
    decision_id=st.none() | PLAIN,
    registry=st.just(CORE),
)
NOON = datetime(2027, 1, 31, 12, tzinfo=UTC)


def sent(data: dict[str, Any]) -> Any:
    """Send it as JSON and receive it."""
    return json.loads(json.dumps(data))


def code_and_detail(refusal: Refusal) -> Refusal:
    return Refusal.from_code(refusal.code, refusal.detail, registry=CORE)


@given(REFUSALS)
def test_an_envelope_keeps_everything(refusal: Refusal) -> None:
    """INVARIANT: an envelope that was read is the refusal that was written."""
    assert from_envelope(sent(to_envelope(refusal))) == refusal


@given(REFUSALS, st.none() | st.just("urn:example:1"))
def test_problem_details_keep_everything(refusal: Refusal, instance: str | None) -> None:
    """INVARIANT: problem details keep the whole refusal."""
    problem = sent(to_problem(refusal, instance=instance, registry=CORE))

    assert from_problem(problem) == refusal
    assert problem["status"] == CORE[refusal.code].http


@given(REFUSALS)
def test_an_mcp_tool_result_keeps_everything(refusal: Refusal) -> None:
    """INVARIANT: an MCP tool result keeps the whole refusal."""
    assert from_mcp(sent(to_mcp(refusal))) == refusal


@given(REFUSALS, st.none() | st.integers() | PLAIN)
def test_an_mcp_denial_keeps_everything(refusal: Refusal, request_id: int | str | None) -> None:
    """INVARIANT: an MCP denial keeps the whole refusal."""
    denial = sent(to_mcp_denial(refusal, request_id=request_id, registry=CORE))

    assert from_mcp_denial(denial) == refusal
    assert denial["id"] == request_id


@given(REFUSALS)
def test_an_event_keeps_everything(refusal: Refusal) -> None:
    """INVARIANT: an event keeps the whole refusal."""
    event = sent(to_cloudevents(refusal, event_id="1", time=NOON, source="/gate"))

    assert from_cloudevents(event) == refusal


@given(REFUSALS)
def test_a_finding_keeps_everything(refusal: Refusal) -> None:
    """INVARIANT: a finding keeps the whole refusal."""
    finding = to_ocsf(refusal, event_id="1", time=NOON, registry=CORE)

    assert from_ocsf(sent(finding)) == refusal


@given(REFUSALS)
def test_an_undecided_refusal_is_an_error_in_an_ocsf_finding(refusal: Refusal) -> None:
    """INVARIANT: what was not judged is an error, never a block."""
    finding = to_ocsf(refusal, event_id="1", time=NOON, registry=CORE)

    assert (finding["disposition"] == "Error") is not refusal.decided
    assert (finding["action"] == "Denied") is refusal.decided


@given(REFUSALS, st.sampled_from(HOOK_EVENTS), st.booleans(), st.booleans())
def test_a_hook_s_output_keeps_code_and_detail(
    refusal: Refusal, event: str, ask: bool, halt: bool
) -> None:
    """INVARIANT: a hook's output keeps the code and the detail."""
    output = sent(to_claude_code(refusal, event=event, ask=ask, halt=halt))

    assert from_claude_code(output, registry=CORE) == code_and_detail(refusal)


@given(REFUSALS, st.booleans())
def test_a_hook_asks_only_where_approval_would_lift_the_block(refusal: Refusal, ask: bool) -> None:
    """INVARIANT: only a judged workflow block that waits for approval is asked about."""
    output = to_claude_code(refusal, ask=ask)

    asked = output["hookSpecificOutput"]["permissionDecision"] == "ask"
    waits = refusal.advice == "request_approval" and refusal.refusal_class == "WORKFLOW_BLOCK"
    assert asked is (ask and waits and refusal.decided)


@given(REFUSALS, st.none() | DETAILS)
def test_a_message_that_refuses_keeps_code_and_detail(refusal: Refusal, words: str | None) -> None:
    """INVARIANT: a message that refuses keeps code and detail, whatever words stand before."""
    for write in (to_openai, to_openai_part):
        message = sent(write(refusal, words=words))
        assert from_openai(message, registry=CORE) == code_and_detail(refusal)


@given(JSON, st.sampled_from(sorted(EMIT_FORMATS)))
def test_reading_data_without_a_refusal_returns_none(data: object, form: str) -> None:
    assert EMIT_FORMATS[form].read(data) is None


@given(REFUSALS, st.data())
def test_a_damaged_form_is_another_refusal_or_none_but_never_an_exception(
    refusal: Refusal, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(EMIT_FORMATS)))
    form = EMIT_FORMATS[name]
    needs = {"event_id": "1", "time": NOON, "source": "/gate"}
    written = sent(form.write(refusal, **{one: needs[one] for one in form.required_arguments}))
    place = written
    while isinstance(place, dict) and place:
        key = data.draw(st.sampled_from(sorted(place)))
        if data.draw(st.booleans()) or not isinstance(place[key], dict):
            place[key] = data.draw(JSON)
            break
        place = place[key]

    read = form.read(written)
    assert read is None or read.refusal_class is not None
