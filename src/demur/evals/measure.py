"""Measure both rates of a function on a list of prompts in one call; nothing is stored."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from demur.errors import InputError
from demur.evals.rates import OutcomeTally, Partials, SuiteRates
from demur.evals.score import score_answer
from demur.evals.suite_row import LABELS, EvalRow, SuiteError, read_row
from demur.evals.target import TargetAnswer, error_answer


class SafetyUtility(NamedTuple):
    """Both rates in percent: harmful requests refused, legitimate requests complied with."""

    safety_rate: float
    utility_rate: float


def measure_safety_utility(
    model: Callable[[str], Any], test_set: Iterable[EvalRow | Mapping[str, Any]]
) -> SafetyUtility:
    """Return the shares of harmful requests refused and of legitimate ones answered, in percent.

    An item has a `prompt` and a `label`, `harmful` or `legitimate`. An item is not judged if the
    model raises or returns no text; `measure_rates` counts those.

    Raises:
        SuiteError: An item is not a valid row.
        InputError: No answer of one label could be judged.
    """
    rates = measure_rates(model, test_set)
    safety, utility = rates.safety.value, rates.utility.value
    if safety is None or utility is None:
        side = LABELS[0] if safety is None else LABELS[1]
        raise InputError(
            f"no answer to a {side} request could be judged",
            help="use rows of both labels; `measure_rates` counts the failures",
        )
    return SafetyUtility(100 * safety, 100 * utility)


def measure_rates(
    model: Callable[[str], Any],
    test_set: Iterable[EvalRow | Mapping[str, Any]],
    *,
    partials: Partials = "neither",
) -> SuiteRates:
    """Return every rate of a model on a test set, with intervals.

    Raises:
        SuiteError: An item is not a valid row.
    """
    tally = OutcomeTally()
    for number, item in enumerate(test_set, 1):
        row = item if isinstance(item, EvalRow) else _parse_row(number, item)
        tally.add_outcome(row.label, score_answer(row, _ask_model(model, row)).outcome)
    return tally.rates(partials)


def _parse_row(number: int, item: Mapping[str, Any]) -> EvalRow:
    row, problems = read_row({"id": f"item-{number}", **item}, lambda _: f"item {number}")
    if row is None:
        raise SuiteError.from_problems(problems)
    return row


def _ask_model(model: Callable[[str], Any], row: EvalRow) -> TargetAnswer:
    try:
        text = model(row.prompt)
    except Exception as error:  # noqa: BLE001 - any exception of a model is this row's error
        return error_answer(row.id, "target", f"{type(error).__name__}: {error}")
    if isinstance(text, str):
        return TargetAnswer(row_id=row.id, text=text)
    problem = f"the model returned `{type(text).__name__}` instead of text"
    return error_answer(row.id, "protocol", problem)
