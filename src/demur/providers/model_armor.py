"""Google Model Armor: which filter matched, and whether the filters ran at all."""

from collections.abc import Iterator
from typing import NamedTuple

from demur.providers.mapping import System, system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Outcome, Signal, strongest

__all__ = ["NAME", "read"]

NAME = "model_armor"
_MATCH = "MATCH_FOUND"


class _Filter(NamedTuple):
    """A filter by name, its whole result, and the part that has the match state."""

    word: str
    whole: Node
    part: Node
    masks: bool


def read(shape: Shape) -> Signal | None:
    """Return the signal of a sanitised prompt or answer."""
    result = shape.body["sanitizationResult"]
    if not result.present:
        result = shape.body
    state = result["filterMatchState"]
    known = system(NAME)
    if state.text is None:
        # Without a match state, only a failure of the filters can be read.
        return strongest(_ran(result["invocationResult"], "invocation_result", known))
    judged = known.judge("match_state", state.text)
    filters = list(_filters(result["filterResults"]))
    matches = [_match(one, known) for one in filters if one.part["matchState"].text == _MATCH]
    broken = [*_ran(result["invocationResult"], "invocation_result", known)]
    for one in filters:
        broken += _ran(one.part["executionState"], "execution_state", known)
    # If every match was masked, text was changed and nothing was refused.
    explained = judged.outcome is Outcome.REFUSAL and matches
    return strongest([*(matches if explained else [judged.signal(state)]), *broken])


def _filters(results: Node) -> Iterator[_Filter]:
    """Yield the result of each filter, from a map by name or a list."""
    for name, entry in (*results.fields(), *(("", entry) for entry in results)):
        for kind, whole in entry.fields():
            word = name or kind.removesuffix("FilterResult").removesuffix("_filter_result")
            for part, masks in (
                (whole, False),
                (whole["inspectResult"], False),
                (whole["deidentifyResult"], True),
            ):
                yield _Filter(word, whole, part, masks)


def _match(one: _Filter, known: System) -> Signal:
    judged = known.judge("filter", one.word)
    kinds = [
        kind
        for kind, result in one.whole["raiFilterTypeResults"].fields()
        if result["matchState"].text == _MATCH
    ]
    if kinds:
        judged = known.judge("rai_type", kinds[0])
    return judged.signal(
        one.part,
        outcome=Outcome.DETECT_ONLY if one.masks else judged.outcome,
        evidence={
            "filter": one.word,
            "categories": kinds,
            "score": one.part["confidenceLevel"].text,
        },
    )


def _ran(state: Node, field: str, known: System) -> Iterator[Signal]:
    judged = known.judge(field, state.text)
    if state.text and judged.outcome is Outcome.NOT_JUDGED:
        yield judged.signal(state, evidence={"guard": NAME, "cause": state.text})
