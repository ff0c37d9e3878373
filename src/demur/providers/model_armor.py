"""Google Model Armor: which filter matched, and whether the filters ran at all."""

from collections.abc import Iterator
from typing import NamedTuple

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import (
    ProviderSystem,
    Signal,
    SignalOutcome,
    load_system,
    strongest_signal,
)

__all__ = ["NAME", "read"]

NAME = "model_armor"
_MATCH = "MATCH_FOUND"


class _ArmorFilter(NamedTuple):
    """A filter by name, its whole result, and the part that has the match state."""

    word: str
    whole: Node
    part: Node
    masks: bool


def read(shape: ResponseShape) -> Signal | None:
    """Return the signal of a sanitised prompt or answer."""
    result = shape.body["sanitizationResult"]
    if not result.present:
        result = shape.body
    state = result["filterMatchState"]
    known = load_system(NAME)
    if state.text is None:
        # Without a match state, only a failure of the filters can be read.
        return strongest_signal(
            _read_failures(result["invocationResult"], "invocation_result", known)
        )
    judged = known.interpret("match_state", state.text)
    filters = list(_find_filters(result["filterResults"]))
    matches = [
        _match_signal(one, known) for one in filters if one.part["matchState"].text == _MATCH
    ]
    broken = [*_read_failures(result["invocationResult"], "invocation_result", known)]
    for one in filters:
        broken += _read_failures(one.part["executionState"], "execution_state", known)
    # If every match was masked, text was changed and nothing was refused.
    explained = judged.outcome is SignalOutcome.REFUSAL and matches
    return strongest_signal([*(matches if explained else [judged.to_signal(state)]), *broken])


def _find_filters(results: Node) -> Iterator[_ArmorFilter]:
    """Yield the result of each filter, from a map by name or a list."""
    for name, entry in (*results.fields(), *(("", entry) for entry in results)):
        for kind, whole in entry.fields():
            word = name or kind.removesuffix("FilterResult").removesuffix("_filter_result")
            for part, masks in (
                (whole, False),
                (whole["inspectResult"], False),
                (whole["deidentifyResult"], True),
            ):
                yield _ArmorFilter(word, whole, part, masks)


def _match_signal(one: _ArmorFilter, known: ProviderSystem) -> Signal:
    judged = known.interpret("filter", one.word)
    kinds = [
        kind
        for kind, result in one.whole["raiFilterTypeResults"].fields()
        if result["matchState"].text == _MATCH
    ]
    if kinds:
        judged = known.interpret("rai_type", kinds[0])
    return judged.to_signal(
        one.part,
        outcome=SignalOutcome.DETECT_ONLY if one.masks else judged.outcome,
        evidence={
            "filter": one.word,
            "categories": kinds,
            "score": one.part["confidenceLevel"].text,
        },
    )


def _read_failures(state: Node, field: str, known: ProviderSystem) -> Iterator[Signal]:
    judged = known.interpret(field, state.text)
    if state.text and judged.outcome is SignalOutcome.NOT_JUDGED:
        yield judged.to_signal(state, evidence={"guard": NAME, "cause": state.text})
