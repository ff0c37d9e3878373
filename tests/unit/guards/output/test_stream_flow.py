import pytest
from made_secrets import github_token
from toy_rules import toy_rules

from demur.errors import InputTypeError
from demur.guards.output.guard import OutputConfig
from demur.guards.output.stream_flow import (
    OutputStreamFilter,
    OnBlock,
    OutputBlockedError,
    StreamConfig,
)
from demur.model.finding import Action, Finding

RULES = toy_rules("pattern: some bad words")
TEXT = "Before it. Some bad words, and what follows."


def run(text: str, **config: object) -> tuple[OutputStreamFilter, list[str]]:
    output = OutputConfig(rules=RULES)
    flow = OutputStreamFilter(StreamConfig(**{"output": output, **config}), None)  # type: ignore[arg-type]
    pieces = list(flow.feed(text))
    if not flow.is_stopped:
        pieces += flow.finish()
    return flow, pieces


def test_a_clean_stream_leaves_whole() -> None:
    flow, pieces = run("All is well.")

    assert "".join(pieces) == "All is well."
    assert flow.result == ((), None, None, 12, True)


def test_a_blocked_stream_ends_with_the_replacement() -> None:
    flow, pieces = run(TEXT, replacement="Stopped.")

    assert pieces == ["Before it. ", "Stopped."]
    assert flow.is_stopped
    assert flow.result.refusal == "REFUSED: OUTPUT_FORBIDDEN: a toy"
    assert flow.result.blocked == flow.result.findings[0]
    assert (flow.result.released, flow.result.complete) == (11, False)


def test_a_blocked_stream_can_just_end() -> None:
    assert run(TEXT, on_block=OnBlock.END)[1] == ["Before it. "]


def test_a_blocked_stream_can_raise() -> None:
    flow, pieces = run(TEXT, on_block=OnBlock.RAISE)

    assert pieces == ["Before it. "]
    with pytest.raises(OutputBlockedError, match="the answer was stopped") as caught:
        flow.raise_if_blocked()
    assert caught.value.refusal == "REFUSED: OUTPUT_FORBIDDEN: a toy"
    assert caught.value.finding.code == "OUTPUT_FORBIDDEN"


def test_a_stream_that_was_not_blocked_raises_nothing() -> None:
    run("All is well.", on_block=OnBlock.RAISE)[0].raise_if_blocked()
    run(TEXT)[0].raise_if_blocked()


def test_what_is_forbidden_can_be_masked() -> None:
    flow, pieces = run(TEXT * 2, on_block=OnBlock.REDACT, mask="#")

    assert "".join(pieces) == "Before it. #, and what follows." * 2
    assert (len(flow.result.findings), flow.result.complete) == (2, True)
    assert flow.result.released == 2 * (len(TEXT) - len("some bad words"))


def test_overlapping_spans_are_masked_once() -> None:
    rules = toy_rules("pattern: abcd", "pattern: cdef", "pattern: xabcdef")
    output = OutputConfig(rules=rules)

    assert "".join(run("_abcdef_", output=output, on_block=OnBlock.REDACT, mask="#")[1]) == "_#_"
    assert "".join(run("_xabcdef_", output=output, on_block=OnBlock.REDACT, mask="#")[1]) == "_#_"


def test_a_span_inside_another_is_masked_with_it() -> None:
    output = OutputConfig(rules=toy_rules("pattern: a card .{0,30}here"))
    text = "_a card 4929 3813 3266 4717 here_"
    flow, pieces = run(text, output=output, on_block=OnBlock.REDACT, mask="#")

    assert ("".join(pieces), len(flow.result.findings)) == ("_#_", 2)


def test_rules_can_be_tried_out_without_effect() -> None:
    flow, pieces = run(TEXT, on_block=OnBlock.RECORD)

    assert "".join(pieces) == TEXT
    assert (len(flow.result.findings), flow.result.blocked) == (1, None)


def test_every_finding_is_told_also_warnings() -> None:
    told: list[Finding] = []
    card = f"Card 4929 3813 3266 4717.{' .' * 30} Order 4929381332664717. "
    flow, pieces = run(card, on_finding=told.append, stops=frozenset({Action.BLOCK}))

    assert "".join(pieces) == card
    assert [finding.action for finding in told] == [Action.ESCALATE, Action.WARN]
    assert flow.result.findings == tuple(told)


def test_what_a_person_should_see_first_stops_a_stream() -> None:
    flow, _ = run("Card 4929 3813 3266 4717. ")

    assert flow.result.refusal == "REFUSED: PII_DETECTED: payment card of 19 characters"


def test_what_the_prompt_said_does_not_stop_a_stream() -> None:
    token = github_token()
    flow = OutputStreamFilter(StreamConfig(), f"Is {token} valid?")
    text = "".join([*flow.feed(f"{token} is valid."), *flow.finish()])

    assert text == f"{token} is valid."


def test_only_text_is_a_chunk() -> None:
    flow = OutputStreamFilter(StreamConfig(), None)

    with pytest.raises(InputTypeError, match="a chunk must be a text, not `NoneType`"):
        flow.feed(None)  # type: ignore[arg-type]
