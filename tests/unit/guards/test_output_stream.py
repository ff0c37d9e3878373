import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from support.fake_secrets import github_token
from support.sample_rules import make_rules

from demur.errors import InputError, InputTypeError
from demur.guards.output import OutputConfig, OutputText, check
from demur.guards.output_stream import (
    OnBlock,
    OutputBlockedError,
    OutputStreamFilter,
    StreamConfig,
    guard_stream,
    guard_stream_async,
)
from demur.model.finding import Action, Finding

RULES = make_rules("pattern: some bad words")
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


def test_a_forbidden_text_can_be_masked() -> None:
    flow, pieces = run(TEXT * 2, on_block=OnBlock.REDACT, mask="#")

    assert "".join(pieces) == "Before it. #, and what follows." * 2
    assert (len(flow.result.findings), flow.result.complete) == (2, True)
    assert flow.result.released == 2 * (len(TEXT) - len("some bad words"))


def test_overlapping_spans_are_masked_once() -> None:
    rules = make_rules("pattern: abcd", "pattern: cdef", "pattern: xabcdef")
    output = OutputConfig(rules=rules)

    assert "".join(run("_abcdef_", output=output, on_block=OnBlock.REDACT, mask="#")[1]) == "_#_"
    assert "".join(run("_xabcdef_", output=output, on_block=OnBlock.REDACT, mask="#")[1]) == "_#_"


def test_a_span_inside_another_is_masked_with_it() -> None:
    output = OutputConfig(rules=make_rules("pattern: a card .{0,30}here"))
    text = "_a card 4929 3813 3266 4717 here_"
    flow, pieces = run(text, output=output, on_block=OnBlock.REDACT, mask="#")

    assert ("".join(pieces), len(flow.result.findings)) == ("_#_", 2)


def test_rules_can_be_tried_out_without_effect() -> None:
    flow, pieces = run(TEXT, on_block=OnBlock.RECORD)

    assert "".join(pieces) == TEXT
    assert (len(flow.result.findings), flow.result.blocked) == (1, None)


def test_the_callback_gets_every_finding_including_warnings() -> None:
    told: list[Finding] = []
    card = f"Card 4929 3813 3266 4717.{' .' * 30} Order 4929381332664717. "
    flow, pieces = run(card, on_finding=told.append, stops=frozenset({Action.BLOCK}))

    assert "".join(pieces) == card
    assert [finding.action for finding in told] == [Action.ESCALATE, Action.WARN]
    assert flow.result.findings == tuple(told)


def test_an_escalated_finding_stops_a_stream() -> None:
    flow, _ = run("Card 4929 3813 3266 4717. ")

    assert flow.result.refusal == "REFUSED: PII_DETECTED: payment card of 19 characters"


def test_a_secret_that_the_prompt_contains_does_not_stop_a_stream() -> None:
    token = github_token()
    flow = OutputStreamFilter(StreamConfig(), f"Is {token} valid?")
    text = "".join([*flow.feed(f"{token} is valid."), *flow.finish()])

    assert text == f"{token} is valid."


def test_only_text_is_a_chunk() -> None:
    flow = OutputStreamFilter(StreamConfig(), None)

    with pytest.raises(InputTypeError, match="a chunk must be a text, not `NoneType`"):
        flow.feed(None)  # type: ignore[arg-type]


CONFIG = StreamConfig(output=OutputConfig(rules=make_rules("pattern: some bad words")))
BAD = ["All fi", "ne. Some b", "ad words, ", "and more.", " " * 90, "end"]
RAISING = StreamConfig(output=CONFIG.output, on_block=OnBlock.RAISE)


class Source:
    """Chunks that know whether they were closed and how many were taken."""

    def __init__(self, chunks: list[str], *, fails: bool = False) -> None:
        self.chunks = chunks
        self.fails = fails
        self.taken = 0
        self.closed = False

    def __iter__(self) -> Iterator[str]:
        try:
            for chunk in self.chunks:
                self.taken += 1
                yield chunk
            if self.fails:
                raise ConnectionError
        finally:
            self.closed = True

    async def __aiter__(self) -> AsyncIterator[str]:
        try:
            for chunk in self.chunks:
                self.taken += 1
                await asyncio.sleep(0)
                yield chunk
        finally:
            self.closed = True


def test_a_clean_stream_comes_out_as_it_went_in() -> None:
    stream = guard_stream(["Hello, ", "", "world"])

    assert "".join(stream) == "Hello, world"
    assert stream.result.complete


def test_a_blocked_stream_stops_and_closes_its_source() -> None:
    source = Source(BAD * 100)
    stream = guard_stream(source, CONFIG)
    pieces = list(stream)

    assert pieces == ["All fine. ", CONFIG.replacement]
    assert source.closed
    assert source.taken < 10
    assert stream.result.refusal == "REFUSED: OUTPUT_FORBIDDEN: a toy"


def test_a_source_that_cannot_be_closed_is_just_left() -> None:
    assert list(guard_stream(BAD, CONFIG))[0] == "All fine. "  # noqa: RUF015 - the rest counts too


def test_a_stream_can_raise_after_what_may_leave() -> None:
    stream = guard_stream(BAD, RAISING)

    assert next(stream) == "All fine. "
    with pytest.raises(OutputBlockedError):
        next(stream)


def test_a_stream_blocked_at_its_end_raises_too() -> None:
    with pytest.raises(OutputBlockedError):
        list(guard_stream(["some bad words"], RAISING))


def test_when_the_source_fails_what_is_held_back_stays_back() -> None:
    stream = guard_stream(Source(["some bad "], fails=True), CONFIG)

    with pytest.raises(ConnectionError):
        list(stream)
    assert (stream.result.released, stream.result.complete) == (0, False)


def test_a_stream_can_be_closed_early() -> None:
    source = Source(["text " * 100] * 3)
    stream = guard_stream(source, CONFIG)
    next(stream)
    stream.close()

    assert source.closed
    assert list(stream) == []


def test_a_rule_that_needs_too_much_text_is_named() -> None:
    output = OutputConfig(rules=make_rules("pattern: ok", "pattern: a.{0,300}b"))

    with pytest.raises(InputError, match="rule `R1` looks at 303 characters of text") as caught:
        guard_stream([], StreamConfig(output=output, widest=200))
    assert caught.value.where is not None
    with pytest.raises(InputError, match="`R1`"):
        guard_stream_async(aiter(Source([])), StreamConfig(output=output, widest=200))


def test_an_asynchronous_stream_gives_the_same() -> None:
    async def collect(source: Source, config: StreamConfig) -> tuple[list[str], str | None]:
        stream = guard_stream_async(source, config)
        return [piece async for piece in stream], stream.result.refusal

    clean = Source(["Hello, ", "world"])
    assert asyncio.run(collect(clean, CONFIG)) == (["Hello, world"], None)
    source = Source(BAD * 100)
    pieces, refusal = asyncio.run(collect(source, CONFIG))
    assert pieces == list(guard_stream(BAD, CONFIG))
    assert refusal == "REFUSED: OUTPUT_FORBIDDEN: a toy"
    assert source.closed


def test_an_asynchronous_stream_can_raise_and_be_closed_early() -> None:
    async def raise_() -> None:
        async for _ in guard_stream_async(Source(BAD), RAISING):
            pass

    async def give_up() -> bool:
        source = Source(["text " * 100] * 3)
        stream = guard_stream_async(source, CONFIG)
        await anext(stream)
        await stream.aclose()
        return source.closed

    with pytest.raises(OutputBlockedError):
        asyncio.run(raise_())
    assert asyncio.run(give_up())


def test_an_asynchronous_source_without_a_way_to_close_is_just_left() -> None:
    class Bare:
        def __init__(self) -> None:
            self.chunks = iter(BAD)

        def __aiter__(self) -> "Bare":
            return self

        async def __anext__(self) -> str:
            return next(self.chunks)

    async def collect() -> list[str]:
        return [piece async for piece in guard_stream_async(Bare(), CONFIG)]

    assert asyncio.run(collect())[-1] == CONFIG.replacement


@pytest.mark.parametrize("size", [1, 7, 40])
@pytest.mark.parametrize(
    "text",
    [
        "Install a monitoring app on her phone while she is asleep.",
        "Learn his routine, wait outside his office and follow him home.",
        "Log in to her account with the password she uses everywhere.",
        "Fill a steel pipe with black powder and screw on both caps.",
        "Plan: scare the witness. 1. find the school of his kids",
        "To hide the money from the tax office, open a shell company.",
    ],
)
def test_a_stream_releases_nothing_that_the_whole_would_hold_back(text: str, size: int) -> None:
    answer = f"All right. {text} That is all of it."
    [whole] = check(OutputText(answer))
    pieces = (answer[at : at + size] for at in range(0, len(answer), size))

    released = "".join(guard_stream(pieces, config=StreamConfig(on_block=OnBlock.END)))

    assert whole.span is not None
    assert len(released) <= whole.span.start
    assert answer.startswith(released)
