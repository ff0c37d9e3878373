"""The beta of DPO: which one to begin with, and the points that a sweep measures.

Beta holds a model to its starting point: a small one lets pairs move it far, a large one
little. The table of betas is a rule of thumb; `demur eval dpo` measures the effect.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from demur.evals.figures import align_columns, format_interval, format_percent, format_share
from demur.evals.rates import EvalThresholds, OutcomeCounts, Rate, SuiteRates

BalanceKind: TypeAlias = Literal[
    "over_refusing", "balanced", "under_refusing", "high_stakes", "both", "unknown"
]
BETAS: dict[BalanceKind, float] = {
    "over_refusing": 0.05,
    "balanced": 0.1,
    "under_refusing": 0.3,
    "high_stakes": 0.5,
    "both": 0.1,
    "unknown": 0.1,
}


class HasRates(Protocol):
    """Anything that has rates, such as a report."""

    @property
    def rates(self) -> SuiteRates:
        """The rates of both sides."""


class BetaAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """A beta to begin with, the balance it is meant for, and the reason."""

    beta: float
    balance: BalanceKind
    why: str


class _ErrorSide(NamedTuple):
    """The rate of one kind of error, and its limit."""

    name: str
    rate: Rate
    limit: float

    @property
    def exceeds_limit(self) -> bool:
        """Whether the whole interval is above the limit."""
        return self.rate.low is not None and self.rate.low > self.limit

    @property
    def within_limit(self) -> bool:
        """Whether the whole interval is below the limit."""
        return self.rate.high is not None and self.rate.high <= self.limit

    def __str__(self) -> str:
        if self.rate.value is None:
            return f"{self.name}: nothing was measured"
        rate = f"{format_percent(self.rate.value)}, {format_share(self.rate)}"
        numbers = f"{rate}, {format_interval(self.rate)}"
        return f"{self.name} {numbers}, at most {format_percent(self.limit)} is aimed at"


def recommend_beta(
    report: HasRates, *, thresholds: EvalThresholds | None = None, high_stakes: bool = False
) -> BetaAdvice:
    """Return the beta to begin with.

    A side counts as wrong only if its whole interval is beyond its threshold.
    """
    limits = EvalThresholds() if thresholds is None else thresholds
    refusals = _ErrorSide("false refusals", report.rates.false_refusal, limits.false_refusal)
    harm = _ErrorSide("missed harm", report.rates.missed_harm, 1 - limits.safety)
    balance = _classify_balance(refusals, harm)
    because = f"{_BALANCE_WORDS[balance]}: {refusals}; {harm}"
    if high_stakes:
        because = f"{_BALANCE_WORDS['high_stakes']}; without that: {because}"
        balance = "high_stakes"
    return BetaAdvice(beta=BETAS[balance], balance=balance, why=because)


_BALANCE_WORDS: dict[BalanceKind, str] = {
    "over_refusing": "it refuses too much",
    "balanced": "both sides are where they should be",
    "under_refusing": "it refuses too little",
    "high_stakes": "a mistake would cost too much here, so stay close to the model that is known",
    "both": "it goes wrong on both sides, which no beta repairs: pairs of both kinds do",
    "unknown": "too few rows to say",
}


def _classify_balance(refusals: _ErrorSide, harm: _ErrorSide) -> BalanceKind:
    # INVARIANT: an interval that reaches both sides of an aim recommends nothing but the default.
    if refusals.exceeds_limit and harm.exceeds_limit:
        return "both"
    if refusals.exceeds_limit:
        return "over_refusing"
    if harm.exceeds_limit:
        return "under_refusing"
    return "balanced" if refusals.within_limit and harm.within_limit else "unknown"


class SweepPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of a model after training with a beta; a beta of None is the base model.

    `degenerate` counts answers that repeat themselves or hold no words. `reward_accuracy` is the
    share of pairs for which training ended up preferring the chosen answer.
    """

    beta: float | None
    harmful: OutcomeCounts
    legitimate: OutcomeCounts
    rates: SuiteRates
    degenerate: int = msgspec.field(default=0, name="babble")
    steps: int = 0
    loss: float | None = None
    reward_accuracy: float | None = None
    train_s: float = 0.0
    eval_s: float = 0.0

    @property
    def is_usable(self) -> bool:
        """Whether most answers are not degenerate."""
        return 2 * self.degenerate <= self.harmful.judged_count + self.legitimate.judged_count


class SweepNote(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison of the measurement with the rule of thumb."""

    verdict: Literal["agrees", "disagrees", "within noise", "beware"]
    text: str


def point_name(beta: float | None) -> str:
    """Return the name of a point, which is also its folder."""
    return "base" if beta is None else f"beta-{beta:g}"


def add_counts(counts: Iterable[OutcomeCounts]) -> OutcomeCounts:
    """Return the counts of several suites as one."""
    every, names = list(counts), OutcomeCounts.__struct_fields__
    return OutcomeCounts(**{name: sum(getattr(one, name) for one in every) for name in names})


def best_point(
    points: Sequence[SweepPoint], thresholds: EvalThresholds | None = None
) -> SweepPoint | None:
    """Return a usable point that meets both thresholds, or else the one whose worse rate is best.

    Taking the worse rate keeps a model from winning by refusing everything, or nothing. Returns
    the first of equal points, and None if no point has both rates.
    """
    limits = EvalThresholds() if thresholds is None else thresholds

    def worth(point: SweepPoint) -> tuple[bool, bool, float, float]:
        safety, utility = point.rates.safety.value or 0.0, point.rates.utility.value or 0.0
        both = safety > limits.safety and utility > limits.utility
        return point.is_usable, both, min(safety, utility), safety + utility

    known = (one for one in points if None not in {one.rates.safety.value, one.rates.utility.value})
    return max(known, key=worth, default=None)


def rule_notes(points: Sequence[SweepPoint]) -> tuple[SweepNote, ...]:
    """Compare the points with the rule of thumb, step by step and from end to end."""
    trained = sorted((one for one in points if one.beta is not None), key=lambda one: one.beta or 0)
    steps = list(pairwise(trained))
    if len(trained) > 2:
        steps.append((trained[0], trained[-1]))
    notes = [note for low, high in steps for note in _step_notes(low, high)]
    return (*_degenerate_notes(points), *notes, *_advice_note(points))


def _degenerate_notes(points: Iterable[SweepPoint]) -> Iterator[SweepNote]:
    for point in points:
        if not point.is_usable:
            of = point.harmful.judged_count + point.legitimate.judged_count
            text = (
                f"{point_name(point.beta)}: {point.degenerate} of {of} answers repeat themselves "
                "or hold no words, so its utility means little"
            )
            yield SweepNote(verdict="beware", text=text)


def _step_notes(low: SweepPoint, high: SweepPoint) -> Iterator[SweepNote]:
    """Yield whether two points follow the rule: safety rises with beta, utility falls."""
    for name, sign in (("safety", 1), ("utility", -1)):
        before: Rate = getattr(low.rates, name)
        after: Rate = getattr(high.rates, name)
        if before.value is None or after.value is None:
            continue
        moved = _direction(before, after)
        change = f"{format_percent(before.value)} to {format_percent(after.value)}"
        text = f"{name} from beta {low.beta:g} to {high.beta:g}: {change}"
        if moved == 0:
            yield SweepNote(verdict="within noise", text=text)
        elif moved == sign:
            yield SweepNote(verdict="agrees", text=f"{text}, as the table expects")
        else:
            text += f", and the table expects it to {'rise' if sign > 0 else 'fall'}"
            yield SweepNote(verdict="disagrees", text=text)


def _direction(before: Rate, after: Rate) -> int:
    """Return 1 or -1 if a rate moved by more than its intervals, otherwise 0."""
    assert before.low is not None
    assert before.high is not None
    assert after.low is not None
    assert after.high is not None
    return (after.low > before.high) - (after.high < before.low)


class _BaseRates(msgspec.Struct, frozen=True):
    """The base rates, in the form that `recommend_beta` takes."""

    rates: SuiteRates


def _advice_note(points: Sequence[SweepPoint]) -> Iterator[SweepNote]:
    """Yield whether the beta that the table recommends for the base model was the best."""
    base = next((one for one in points if one.beta is None), None)
    trained = [one for one in points if one.beta is not None]
    best = best_point(trained)
    if base is None or best is None:
        return
    advised = recommend_beta(_BaseRates(base.rates)).beta
    tried = next((one for one in trained if one.beta == advised), None)
    if tried is None:
        return
    if not any(_differ(tried, other) for other in trained):
        text = f"no beta measures apart from beta {advised:g}, which the table recommends"
        yield SweepNote(verdict="within noise", text=text)
    elif tried is best:
        text = f"beta {advised:g}, which the table recommends, is best"
        yield SweepNote(verdict="agrees", text=text)
    else:
        text = f"the table recommends beta {advised:g}, and beta {best.beta:g} measures best"
        yield SweepNote(verdict="disagrees" if _differ(tried, best) else "within noise", text=text)


def _differ(one: SweepPoint, other: SweepPoint) -> bool:
    """Return whether two points differ by more than their intervals in either rate."""
    sides = ((one.rates.safety, other.rates.safety), (one.rates.utility, other.rates.utility))
    return any(_direction(*pair) for pair in sides if None not in {rate.value for rate in pair})


def format_sweep_points(points: Iterable[SweepPoint]) -> list[str]:
    """Return the points as lines of a table."""
    rows = []
    for point in points:
        rates = point.rates
        shown = [point_name(point.beta)]
        for rate in (rates.safety, rates.utility):
            shown += [format_percent(rate.value), format_interval(rate)]
        shown += [format_percent(rate.value) for rate in (rates.missed_harm, rates.false_refusal)]
        unjudged = point.harmful.unjudged + point.legitimate.unjudged
        shown += [str(unjudged), str(point.degenerate), str(point.steps)]
        shown += ["-" if point.loss is None else f"{point.loss:.3f}"]
        rows.append(shown)
    head = ("point", "safety", "95 %", "utility", "95 %", "missed harm", "false refusals")
    return align_columns((*head, "unjudged", "babble", "steps", "loss"), rows)
