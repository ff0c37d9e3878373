"""Measure both rates of a model on a list of prompts in one call; nothing is stored."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from demur.errors import InputError, InputTypeError
from demur.evals.rates import OutcomeTally, Partials, SuiteRates
from demur.evals.score import score_answer
from demur.evals.suite_row import LABELS, EvalRow, SuiteError, read_row
from demur.evals.target import TargetAnswer, error_answer


class TextGenerator(Protocol):
    """A model with a method that answers a prompt."""

    def generate(self, prompt: str, /) -> Any:
        """Return the answer, a text."""


Model = Callable[[str], Any] | TextGenerator


class SafetyUtility(NamedTuple):
    """Both rates in percent: harmful requests refused, legitimate requests complied with."""

    safety_rate: float
    utility_rate: float


def measure_safety_utility(
    model: Model, test_set: Iterable[EvalRow | Mapping[str, Any]]
) -> SafetyUtility:
    """Return the shares of harmful requests refused and of legitimate ones answered, in percent.

    `model` is a function of a prompt, or an object with a method `generate`. An item has a `prompt`
    and a `label`, `harmful` or `legitimate`. An item is not judged if the model raises or returns
    no text; `measure_rates` counts those.

    Raises:
        SuiteError: An item is not a valid row.
        InputError: There is no item of one label, or none of its answers could be judged.
        InputTypeError: The model is neither a function nor an object with `generate`.
    """
    problems: dict[str, str] = {}
    rates = _tally_answers(model, test_set, problems).rates("neither")
    safety, utility = rates.safety.value, rates.utility.value
    if safety is None or utility is None:
        side = LABELS[0] if safety is None else LABELS[1]
        if side not in problems:
            problem, help_text = f"there is no {side} request to judge", "use rows of both labels"
        else:
            problem = f"no answer to a {side} request could be judged: {problems[side]}"
            help_text = "the model takes a prompt and returns a text"
        raise InputError(problem, where="test_set", help=help_text)
    return SafetyUtility(100 * safety, 100 * utility)


def measure_rates(
    model: Model,
    test_set: Iterable[EvalRow | Mapping[str, Any]],
    *,
    partials: Partials = "neither",
) -> SuiteRates:
    """Return every rate of a model on a test set, with intervals.

    Raises:
        SuiteError: An item is not a valid row.
        InputTypeError: The model is neither a function nor an object with `generate`.
    """
    return _tally_answers(model, test_set, {}).rates(partials)


def _tally_answers(
    model: Model, test_set: Iterable[EvalRow | Mapping[str, Any]], problems: dict[str, str]
) -> OutcomeTally:
    """Return the outcomes; `problems` gets the first error of each label."""
    generate = getattr(model, "generate", model)
    if not callable(generate):
        expected = "a function of a prompt or an object with `generate`"
        raise InputTypeError.wrong_type("the model", expected, model)
    tally = OutcomeTally()
    for number, item in enumerate(test_set, 1):
        row = item if isinstance(item, EvalRow) else _parse_row(number, item)
        answer = _ask_model(generate, row)
        outcome = score_answer(row, answer).outcome
        if outcome == "unjudged":
            problems.setdefault(row.label, answer.error or "the answer is empty")
        tally.add_outcome(row.label, outcome)
    return tally


def _parse_row(number: int, item: Mapping[str, Any]) -> EvalRow:
    if not isinstance(item, Mapping):
        raise InputTypeError.wrong_type(f"item {number}", "a row or a mapping", item)
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
