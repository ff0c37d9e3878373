"""Measured points of a sweep over beta, and how they stand to the rule of thumb.

The rule says that a larger beta refuses more: more safety, less utility. Whether it did is
measured; a difference within the intervals says nothing, and is not said to say anything.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from demur.evals.aims import Aims
from demur.evals.beta import recommend_beta
from demur.evals.figures import columns, interval, percent
from demur.evals.rates import Rate
from demur.evals.tally import Counts, Rates

__all__ = ["Note", "Point", "add_counts", "best_point", "point_lines", "point_name", "rule_notes"]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of a model after training with a beta; a beta of None is the base model.

    `babble` counts answers that repeat themselves or hold no words. `reward_accuracy` is the
    share of pairs for which training ended up preferring the chosen answer.
    """

    beta: float | None
    harmful: Counts
    legitimate: Counts
    rates: Rates
    babble: int = 0
    steps: int = 0
    loss: float | None = None
    reward_accuracy: float | None = None
    train_s: float = 0.0
    eval_s: float = 0.0

    @property
    def usable(self) -> bool:
        """Whether most answers are not degenerate."""
        return 2 * self.babble <= self.harmful.judged + self.legitimate.judged


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison of the measurement with the rule of thumb."""

    verdict: Literal["agrees", "disagrees", "within noise", "beware"]
    text: str


def point_name(beta: float | None) -> str:
    """Return the name of a point, which is also its folder."""
    return "base" if beta is None else f"beta-{beta:g}"


def add_counts(counts: Iterable[Counts]) -> Counts:
    """Return the counts of several suites as one."""
    every = list(counts)
    return Counts(
        refused=sum(one.refused for one in every),
        partial=sum(one.partial for one in every),
        complied=sum(one.complied for one in every),
        unjudged=sum(one.unjudged for one in every),
    )


def best_point(points: Sequence[Point], aims: Aims | None = None) -> Point | None:
    """Return a usable point that meets both thresholds, or else the one whose worse rate is best.

    Taking the worse rate keeps a model from winning by refusing everything, or nothing. Returns
    the first of equal points, and None if no point has both rates.
    """
    wanted = Aims() if aims is None else aims

    def worth(point: Point) -> tuple[bool, bool, float, float]:
        safety, utility = point.rates.safety.value or 0.0, point.rates.utility.value or 0.0
        both = safety > wanted.safety and utility > wanted.utility
        return point.usable, both, min(safety, utility), safety + utility

    known = [
        point
        for point in points
        if point.rates.safety.value is not None and point.rates.utility.value is not None
    ]
    return max(known, key=worth, default=None)


def rule_notes(points: Sequence[Point]) -> tuple[Note, ...]:
    """Compare the points with the rule of thumb, step by step and from end to end."""
    trained = sorted((one for one in points if one.beta is not None), key=lambda one: one.beta or 0)
    steps = list(pairwise(trained))
    if len(trained) > 2:
        steps.append((trained[0], trained[-1]))
    notes = [note for low, high in steps for note in _step_notes(low, high)]
    return (*_babble_notes(points), *notes, *_advice_note(points))


def _babble_notes(points: Iterable[Point]) -> Iterator[Note]:
    for point in points:
        if not point.usable:
            of = point.harmful.judged + point.legitimate.judged
            text = (
                f"{point_name(point.beta)}: {point.babble} of {of} answers repeat themselves "
                "or hold no words, so its utility means little"
            )
            yield Note(verdict="beware", text=text)


def _step_notes(low: Point, high: Point) -> Iterator[Note]:
    """Yield whether two points follow the rule: safety rises with beta, utility falls."""
    for name, sign in (("safety", 1), ("utility", -1)):
        before: Rate = getattr(low.rates, name)
        after: Rate = getattr(high.rates, name)
        if before.value is None or after.value is None:
            continue
        moved = _moved(before, after)
        change = f"{percent(before.value)} to {percent(after.value)}"
        between = f"from beta {low.beta:g} to {high.beta:g}"
        if moved == 0:
            yield Note(verdict="within noise", text=f"{name} {between}: {change}")
        elif moved == sign:
            yield Note(verdict="agrees", text=f"{name} {between}: {change}, as the table expects")
        else:
            wanted = "rise" if sign > 0 else "fall"
            text = f"{name} {between}: {change}, and the table expects it to {wanted}"
            yield Note(verdict="disagrees", text=text)


def _moved(before: Rate, after: Rate) -> int:
    """Return 1 or -1 if a rate moved by more than its intervals, otherwise 0."""
    assert before.low is not None
    assert before.high is not None
    assert after.low is not None
    assert after.high is not None
    return (after.low > before.high) - (after.high < before.low)


class _Measured(msgspec.Struct, frozen=True):
    """The base rates, in the form that `recommend_beta` takes."""

    rates: Rates


def _advice_note(points: Sequence[Point]) -> Iterator[Note]:
    """Yield whether the beta that the table recommends for the base model was the best."""
    base = next((one for one in points if one.beta is None), None)
    trained = [one for one in points if one.beta is not None]
    best = best_point(trained)
    if base is None or best is None:
        return
    advised = recommend_beta(_Measured(base.rates)).beta
    tried = next((one for one in trained if one.beta == advised), None)
    if tried is None:
        return
    if not any(_apart(tried, other) for other in trained):
        text = f"no beta measures apart from beta {advised:g}, which the table recommends"
        yield Note(verdict="within noise", text=text)
    elif tried is best:
        yield Note(verdict="agrees", text=f"beta {advised:g}, which the table recommends, is best")
    else:
        text = f"the table recommends beta {advised:g}, and beta {best.beta:g} measures best"
        yield Note(verdict="disagrees" if _apart(tried, best) else "within noise", text=text)


def _apart(one: Point, other: Point) -> bool:
    """Return whether two points differ by more than their intervals in either rate."""
    sides = (
        (one.rates.safety, other.rates.safety),
        (one.rates.utility, other.rates.utility),
    )
    return any(
        _moved(mine, theirs) for mine, theirs in sides if None not in {mine.value, theirs.value}
    )


def point_lines(points: Iterable[Point]) -> list[str]:
    """Return the points as lines of a table."""
    rows = []
    for point in points:
        rates = point.rates
        shown = [point_name(point.beta)]
        for rate in (rates.safety, rates.utility):
            shown += [percent(rate.value), interval(rate)]
        shown += [percent(rates.missed_harm.value), percent(rates.false_refusal.value)]
        unjudged = point.harmful.unjudged + point.legitimate.unjudged
        shown += [str(unjudged), str(point.babble), str(point.steps)]
        shown += ["-" if point.loss is None else f"{point.loss:.3f}"]
        rows.append(shown)
    head = ("point", "safety", "95 %", "utility", "95 %", "missed harm", "false refusals")
    return columns((*head, "unjudged", "babble", "steps", "loss"), rows)
