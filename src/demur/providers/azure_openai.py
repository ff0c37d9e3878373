"""The content filter of Azure OpenAI, in all three of its shapes.

`filtered` or `blocked` decides; `detected` and severities are annotations. If a filter did
not run, the answer passes with status 200 and looks like success.
"""

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

NAME = "azure_openai"


class _FilterResults(NamedTuple):
    """Filter results for input or output, and the field that says they blocked it."""

    results: Node
    side: str
    stopped: Node | None = None


def read(shape: ResponseShape) -> Signal | None:
    """Return the signal of the filter: first for the prompt, then for the answer."""
    known = load_system(NAME)
    # The prompt comes first, so that it wins among equal signals.
    return strongest_signal(
        signal
        for place in _find_filter_results(shape.body)
        for signal in _read_filter_results(place, known)
    )


def _find_filter_results(body: Node) -> Iterator[_FilterResults]:
    error = body["error"]
    inner = error["innererror"] if error["innererror"].present else error["inner_error"]
    for name in ("content_filter_result", "content_filter_results"):
        if inner[name].present:
            yield _FilterResults(inner[name], "input", inner["code"])
    if inner["code"].present and not inner["content_filter_result"].present:
        yield _FilterResults(inner, "input", inner["code"])
    for entry in (*body["content_filters"], *error["content_filters"]):
        side = "output" if entry["source_type"].text == "completion" else "input"
        stopped = entry["blocked"] if entry["blocked"].is_true else None
        yield _FilterResults(entry["content_filter_results"], side, stopped)
    for prompt in body["prompt_filter_results"]:
        yield _FilterResults(prompt["content_filter_results"], "input")
    for choice in body["choices"]:
        results = choice["content_filter_results"]
        filtered = choice["finish_reason"].text == "content_filter"
        yield _FilterResults(results, "output", choice["finish_reason"] if filtered else None)


def _read_filter_results(place: _FilterResults, known: ProviderSystem) -> Iterator[Signal]:
    failure = place.results["error"]
    if failure.present:
        judged = known.interpret("filter_error", failure["code"].text)
        evidence = {"guard": NAME, "cause": failure["message"].text, "stage": place.side}
        yield judged.to_signal(failure, surface=place.side, evidence=evidence)
    categories = list(_read_categories(place, known))
    yield from categories
    decided = any(signal.outcome is SignalOutcome.REFUSAL for signal in categories)
    stopped = place.stopped
    if stopped is not None and (stopped.is_true or place.results.present) and not decided:
        # Blocks without any unsafe category do occur. They are blocks all the same.
        yield _unexplained_block(stopped, place.side, known)


def _read_categories(place: _FilterResults, known: ProviderSystem) -> Iterator[Signal]:
    for category, result in place.results.fields():
        acted = result["filtered"].is_true
        if not acted and not result["detected"].is_true:
            continue
        judged = known.interpret("category", category)
        evidence = {
            "category": category,
            "severity": result["severity"].text,
            "stage": place.side,
            "citation": result["citation"]["URL"].text,
        }
        yield judged.to_signal(
            result,
            outcome=judged.outcome if acted else SignalOutcome.DETECT_ONLY,
            surface=place.side,
            evidence={key: value for key, value in evidence.items() if value is not None},
        )


def _unexplained_block(stopped: Node, side: str, known: ProviderSystem) -> Signal:
    field, word = ("blocked", "true") if stopped.is_true else ("inner_code", stopped.text)
    if word == "content_filter":
        word = "ResponsibleAIPolicyViolation"
    judged = known.interpret(field, word)
    return judged.to_signal(stopped, surface=side, evidence={"stage": side})
