"""Train a small classifier of a domain, and choose its threshold by a rate of false holds.

Logistic regression over hashed features, fitted on all rows at once: the same rows and seed give
the same file. Figures come from folds that were held out, and groups of rows stay together.
"""

import hashlib
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from demur.errors import InputError
from demur.evals.figures import format_interval, format_percent
from demur.evals.guard_rows import (
    GuardRow,
    assign_groups,
    check_guard_rows,
    count_groups,
    count_labels,
    digest_rows,
    ordinary_rows,
)
from demur.evals.rates import (
    CONFIDENCE,
    Rate,
    chance_of_at_most,
    make_rate,
    min_total,
    upper_bound,
    wilson_interval,
)
from demur.evals.suite import load_suite
from demur.model.finding import Action
from demur.scorers.trained import (
    GuardCard,
    GuardWeights,
    TrainedClassifier,
    find_features,
    to_score,
)

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

# A score below this is never flagged: the text is more likely one to allow.
MIN_THRESHOLD = 0.5
# From strong to weak, so that each fit starts from the one before.
_L2_CHOICES = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
_MAX_FOLDS, _MAX_TUNING_ROWS = 10, 4000
_MAX_STEPS, _MEMORY, _MIN_GRADIENT = 100, 8, 1e-5
_WEIGHT_DIGITS = 6
_MAX_SHOWN = 5
# A difference in recall that says something.
_MIN_GAIN = 0.03


class TrainingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to train: the name, code and action of the guard, and the rate to promise.

    `date` goes to the card as it is; nothing reads the clock.
    """

    name: str
    code: str
    action: Action = Action.ESCALATE
    max_false_holds: float = 0.005
    seed: int = 0
    date: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.max_false_holds < 1:
            problem = f"a rate is between 0 and 1, not `{self.max_false_holds}`"
            raise InputError(problem, where="max_false_holds", help="0.005 is one in 200")


class WrongRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row on the wrong side of the threshold, or nearest to it, with its held-out score."""

    text: str
    label: str
    score: float


class TrainingReport(msgspec.Struct, frozen=True, kw_only=True):
    """How good a trained guard is, measured on rows that were held out.

    `false_holds` counts groups of allow rows, `false_hold_bound` is the rate promised. `recall`
    and `precision` count rows, and their intervals are as wide as those of so many groups.
    `alike` is the number of rows that share a group with another text.
    `elsewhere` counts the legitimate rows of the suite `builtin`, mostly of other domains.
    `half_recall` is the recall with half of the rows. `calibration_error` is the mean distance
    between scores and shares of rows to hold.
    """

    card: GuardCard
    hold_groups: int
    alike: int
    recall: Rate
    precision: Rate
    false_holds: Rate
    false_hold_bound: float
    elsewhere: Rate
    calibration_error: float
    half_recall: float | None
    hint: str
    held_wrongly: tuple[WrongRow, ...]
    missed: tuple[WrongRow, ...]


class TrainedGuard(NamedTuple):
    """A trained guard: its card, its weights, and the report."""

    card: GuardCard
    weights: GuardWeights
    report: TrainingReport


def train_guard(rows: Sequence[GuardRow], options: TrainingOptions, *, where: str) -> TrainedGuard:
    """Return a guard trained on rows; `where` is their place in errors.

    Raises:
        GuardRowsError: The rows cannot be used.
        InputError: They do not support the rate, or do not separate the labels.
    """
    check_guard_rows(rows, where)
    groups = count_groups(rows)
    allow_groups = groups["allow"]
    check_rate(options.max_false_holds, allow_groups, where)
    # The order of rows in a file has no influence.
    ordered = sorted(rows)
    ordinary = ordinary_rows(ordered)
    every = _read_data(ordered, ordinary, options.seed)
    l2 = _choose_l2(every)
    logits = _score_held_out(every, l2)[: len(rows)]
    data = every.select(every.folds >= 0)
    slope, offset = _calibrate(logits, data.labels)
    if slope <= 0:
        problem = "the texts to hold do not differ from those to allow"
        raise InputError(problem, where=where, help="check the labels, or add rows")
    fitted = _fit(every.matrix, every.labels, l2)
    weights = np.round(fitted[:-1] * slope, _WEIGHT_DIGITS)
    bias = round(float(fitted[-1] * slope + offset), _WEIGHT_DIGITS)
    scores = np.array([to_score(slope * logit + offset) for logit in logits])
    threshold, bound = _choose_threshold(data, scores, options.max_false_holds)
    # A text of which nothing is known is never flagged.
    threshold = max(threshold, to_score(bias))
    recall = _measure_recall(data, scores, threshold)
    check_recall(recall, options.max_false_holds, where)
    kept = np.flatnonzero(weights)
    counts = count_labels(rows)
    card = GuardCard(
        name=options.name,
        code=options.code,
        action=options.action,
        threshold=threshold,
        max_false_holds=options.max_false_holds,
        confidence=CONFIDENCE,
        hold_rows=counts["hold"],
        allow_rows=counts["allow"],
        allow_groups=allow_groups,
        ordinary_rows=len(ordinary),
        rows_digest=digest_rows(rows),
        l2=l2,
        folds=int(data.folds.max()) + 1,
        seed=options.seed,
        date=options.date,
    )
    found = GuardWeights(data.features[kept].tolist(), weights[kept].tolist(), bias)
    elsewhere = _count_elsewhere(TrainedClassifier(card, found, digest=""))
    report = _make_report(
        ordered, every, scores, card, recall=recall, bound=bound, elsewhere=elsewhere
    )
    return TrainedGuard(card, found, report)


def _count_elsewhere(model: TrainedClassifier) -> Rate:
    rows = [row for row in load_suite("builtin").rows if row.label == "legitimate"]
    held = sum(model.score_text(row.prompt) > model.card.threshold for row in rows)
    return make_rate(held, len(rows))


def check_rate(rate: float, allow_groups: int, where: str) -> None:
    """Check that so many groups of allow rows can support a rate of false holds.

    Raises:
        InputError: They cannot, even if none of them is held.
    """
    # INVARIANT: a model never promises a rate below what its rows support.
    needed = min_total(rate)
    if allow_groups >= needed:
        return
    supported = math.ceil(upper_bound(0, allow_groups) * 1000) / 1000
    problem = (
        f"{allow_groups} different rows to allow cannot support a rate of false holds "
        f"of {format_percent(rate)}"
    )
    missing = needed - allow_groups
    more = "1 row" if missing == 1 else f"{missing} rows"
    help_text = f"add {more} to allow, or promise less: --max-false-holds {supported}"
    raise InputError(problem, where=where, help=help_text)


def check_recall(recall: Rate, rate: float, where: str) -> None:
    """Check that rows to hold are flagged more often than the rate of false holds allows.

    Raises:
        InputError: They are not, so the guard may be no better than chance.
    """
    # INVARIANT: a model that may be no better than chance is never written.
    if recall.low is not None and recall.low > rate:
        return
    promised = format_percent(rate)
    problem = (
        f"{recall.hits} of {recall.of} rows to hold would be held "
        f"({format_interval(recall)}), at {promised} of false holds: no better than chance"
    )
    if not recall.hits:
        problem = f"at {promised} of false holds, nothing would be held"
    help_text = "check the labels, add rows to hold, or allow another --max-false-holds"
    raise InputError(problem, where=where, help=help_text)


class _Matrix(NamedTuple):
    """Rows of features, sparse: a value for each pair of row and column."""

    rows: Numbers
    columns: Numbers
    values: Floats
    shape: tuple[int, int]

    def times(self, weights: Floats) -> Floats:
        terms = self.values * weights[self.columns]
        return np.bincount(self.rows, terms, self.shape[0]).astype(np.float64, copy=False)

    def transposed_times(self, residuals: Floats) -> Floats:
        terms = self.values * residuals[self.rows]
        return np.bincount(self.columns, terms, self.shape[1]).astype(np.float64, copy=False)

    def select(self, chosen: NDArray[np.bool_]) -> "_Matrix":
        kept = chosen[self.rows]
        numbers = np.cumsum(chosen) - 1
        shape = (int(chosen.sum()), self.shape[1])
        return _Matrix(numbers[self.rows[kept]], self.columns[kept], self.values[kept], shape)


class _TrainingData(NamedTuple):
    """The rows as numbers. `order` is a random number for each group, from 0 to 1.

    Ordinary requests come last, in the fold -1: every model is trained on them, and none is
    measured on them.
    """

    matrix: _Matrix
    features: Numbers
    labels: Floats
    groups: Numbers
    folds: Numbers
    order: Floats

    def select(self, chosen: NDArray[np.bool_]) -> "_TrainingData":
        return self._replace(
            matrix=self.matrix.select(chosen),
            labels=self.labels[chosen],
            groups=self.groups[chosen],
            folds=self.folds[chosen],
            order=self.order[chosen],
        )


def _read_data(rows: Sequence[GuardRow], ordinary: Sequence[GuardRow], seed: int) -> _TrainingData:
    every = [*rows, *ordinary]
    found = [find_features(row.text) for row in every]
    lengths = np.array([len(one) for one in found], dtype=np.int64)
    listed = np.array([number for one in found for number in one], dtype=np.int64)
    features, columns = np.unique(listed, return_inverse=True)
    numbers = np.repeat(np.arange(len(every)), lengths)
    values = 1 / np.sqrt(lengths[numbers].astype(np.float64))
    matrix = _Matrix(numbers, columns.astype(np.int64), values, (len(every), len(features)))
    labels = np.array([row.label == "hold" for row in every], dtype=np.float64)
    assigned = assign_groups(rows)
    keys = {key: number for number, key in enumerate(sorted(set(assigned)))}
    groups = np.array([keys[key] for key in assigned], dtype=np.int64)
    order = np.array([_draw(f"{seed}\n{key}") for key in keys])[groups]
    folds = _split_folds(labels[: len(rows)], groups, order)
    # Each ordinary request is a group of its own, which is drawn first.
    others = np.arange(len(ordinary))
    return _TrainingData(
        matrix,
        features,
        labels,
        np.append(groups, groups.max() + 1 + others),
        np.append(folds, np.full(len(ordinary), -1)),
        np.append(order, np.zeros(len(ordinary))),
    )


def _draw(name: str) -> float:
    """Return a number from 0 to 1 that a name decides."""
    return (
        int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:6]) / 2**48
    )


def _split_folds(labels: Floats, groups: Numbers, order: Floats) -> Numbers:
    """Return the fold of each row: groups in random order, those with a row to hold first."""
    holds = np.bincount(groups, labels) > 0
    drawn = np.zeros(len(holds))
    drawn[groups] = order
    ranked = np.lexsort((drawn, ~holds))
    folds = np.zeros(len(holds), dtype=np.int64)
    folds[ranked] = np.arange(len(ranked)) % _MAX_FOLDS
    return folds[groups]


def _choose_l2(data: _TrainingData) -> float:
    """Return the strength of regularisation with the least loss on folds held out."""
    if len(data.labels) > _MAX_TUNING_ROWS:
        limit = np.sort(data.order)[_MAX_TUNING_ROWS]
        data = data.select(data.order < limit)
    totals = np.zeros(len(_L2_CHOICES))
    for fold in range(_MAX_FOLDS):
        inside, outside = data.folds != fold, data.folds == fold
        if not outside.any() or len(set(data.labels[inside].tolist())) < 2:
            continue
        matrix, others = data.matrix.select(inside), data.matrix.select(outside)
        start = None
        for at, l2 in enumerate(_L2_CHOICES):
            start = _fit(matrix, data.labels[inside], l2, start)
            totals[at] += _losses(_logits(others, start), data.labels[outside]).sum()
    return _L2_CHOICES[int(totals.argmin())]


def _score_held_out(
    data: _TrainingData, l2: float, train_on: NDArray[np.bool_] | None = None
) -> Floats:
    """Return the logit of each row by a model that was not trained on its fold."""
    logits = np.zeros(len(data.labels))
    for fold in range(_MAX_FOLDS):
        outside = data.folds == fold
        inside = ~outside if train_on is None else ~outside & train_on
        fitted = _fit(data.matrix.select(inside), data.labels[inside], l2)
        logits[outside] = _logits(data.matrix.select(outside), fitted)
    return logits


def _logits(matrix: _Matrix, fitted: Floats) -> Floats:
    logits: Floats = matrix.times(fitted[:-1]) + fitted[-1]
    return logits


def _losses(logits: Floats, labels: Floats) -> Floats:
    losses: Floats = np.logaddexp(0, logits) - labels * logits
    return losses


def _fit(matrix: _Matrix, labels: Floats, l2: float, start: Floats | None = None) -> Floats:
    """Return the weights and, last, the bias of a logistic regression."""

    def evaluate(fitted: Floats) -> tuple[float, Floats]:
        logits = _logits(matrix, fitted)
        residuals = (_chances(logits) - labels) / len(labels)
        slope = np.append(matrix.transposed_times(residuals) + l2 * fitted[:-1], residuals.sum())
        loss = _losses(logits, labels).mean() + l2 / 2 * float(np.square(fitted[:-1]).sum())
        return float(loss), slope

    begin = np.zeros(matrix.shape[1] + 1) if start is None else start
    return _minimize(evaluate, begin)


def _chances(logits: Floats) -> Floats:
    chances: Floats = 0.5 * (1 + np.tanh(logits / 2))
    return chances


def _minimize(evaluate: Callable[[Floats], tuple[float, Floats]], begin: Floats) -> Floats:
    """Return the minimum of a smooth convex function, by L-BFGS."""
    point = begin
    loss, slope = evaluate(point)
    past: list[tuple[Floats, Floats, float]] = []
    for _ in range(_MAX_STEPS):
        if float(np.abs(slope).max()) < _MIN_GRADIENT:
            break
        step = -_scale_gradient(slope, past)
        descent = float((step * slope).sum())
        size = 1.0 if past else min(1.0, 1 / float(np.abs(slope).sum()))
        while True:
            moved = point + size * step
            next_loss, next_slope = evaluate(moved)
            if next_loss <= loss + 1e-4 * size * descent or size < 1e-8:
                break
            size /= 2
        change, turn = moved - point, next_slope - slope
        curvature = float((change * turn).sum())
        if size < 1e-8:
            break
        if curvature > 1e-12:
            past = [*past[1 - _MEMORY :], (change, turn, curvature)]
        point, loss, slope = moved, next_loss, next_slope
    return point


def _scale_gradient(slope: Floats, past: list[tuple[Floats, Floats, float]]) -> Floats:
    """Return the gradient times an estimate of the inverse curvature."""
    scaled = slope.copy()
    factors = []
    for change, turn, curvature in reversed(past):
        factor = float((change * scaled).sum()) / curvature
        factors.append(factor)
        scaled -= factor * turn
    if past:
        _, turn, curvature = past[-1]
        scaled *= curvature / float(np.square(turn).sum())
    for (change, turn, curvature), factor in zip(past, reversed(factors), strict=True):
        scaled += (factor - float((turn * scaled).sum()) / curvature) * change
    return scaled


def _calibrate(logits: Floats, labels: Floats) -> tuple[float, float]:
    """Return slope and offset that turn held-out logits into calibrated ones (Platt scaling)."""
    holds, allows = float(labels.sum()), float((1 - labels).sum())
    # Targets a little inside of 0 and 1, so that separable rows do not give endless certainty.
    targets = np.where(labels == 1, (holds + 1) / (holds + 2), 1 / (allows + 2))

    def evaluate(line: Floats) -> tuple[float, Floats]:
        scaled = line[0] * logits + line[1]
        residuals = (_chances(scaled) - targets) / len(logits)
        loss = float(_losses(scaled, targets).mean())
        return loss, np.array([float((residuals * logits).sum()), float(residuals.sum())])

    slope, offset = _minimize(evaluate, np.array([1.0, 0.0]))
    return float(slope), float(offset)


def _choose_threshold(data: _TrainingData, scores: Floats, rate: float) -> tuple[float, float]:
    """Return the lowest threshold that keeps the rate, and the bound of the rate at it.

    A group is held if one of its allow rows is. The number of groups that may be held is fixed
    before scores are looked at, so the bound holds for the threshold that it leads to.
    """
    highest = _score_groups(data, scores)
    total = len(highest)
    supported = bisect_right(
        range(total), 1 - CONFIDENCE, key=lambda hits: chance_of_at_most(hits, total, rate)
    )
    # `check_rate` made sure that the rows support the rate if none of them is held.
    allowed = max(0, supported - 1)
    threshold = max(MIN_THRESHOLD, float(np.sort(highest)[::-1][allowed]))
    return threshold, upper_bound(allowed, total)


def _score_groups(data: _TrainingData, scores: Floats) -> Floats:
    """Return the highest score of the allow rows in each group that has some."""
    highest = np.full(int(data.groups.max()) + 1, -1.0)
    allow = data.labels == 0
    np.maximum.at(highest, data.groups[allow], scores[allow])
    return highest[highest >= 0]


def _make_report(
    rows: Sequence[GuardRow],
    every: _TrainingData,
    scores: Floats,
    card: GuardCard,
    *,
    recall: Rate,
    bound: float,
    elsewhere: Rate,
) -> TrainingReport:
    data = every.select(every.folds >= 0)
    hold, held = data.labels == 1, scores > card.threshold
    groups = _score_groups(data, scores)
    half = _measure_half(every, card, groups)
    recall_groups = len(set(data.groups[hold].tolist()))
    return TrainingReport(
        card=card,
        hold_groups=recall_groups,
        alike=_count_alike(rows, data.groups),
        recall=recall,
        precision=_make_group_rate(held & hold, held, data.groups),
        false_holds=make_rate(int((groups > card.threshold).sum()), len(groups)),
        false_hold_bound=bound,
        elsewhere=elsewhere,
        calibration_error=_measure_calibration(scores, data.labels),
        half_recall=half,
        hint=_compare_half(recall, half),
        held_wrongly=_list_worst(rows, scores, np.where(hold, -1.0, scores)),
        missed=_list_worst(rows, scores, np.where(held | ~hold, -1.0, 1 - scores)),
    )


def _measure_recall(data: _TrainingData, scores: Floats, threshold: float) -> Rate:
    hold = data.labels == 1
    return _make_group_rate(hold & (scores > threshold), hold, data.groups)


def _make_group_rate(hits: NDArray[np.bool_], total: NDArray[np.bool_], groups: Numbers) -> Rate:
    """Return a rate of rows, with an interval as wide as that of so many groups."""
    rate = make_rate(int(hits.sum()), int(total.sum()))
    if rate.value is None:
        return rate
    different = len(set(groups[total].tolist()))
    low, high = wilson_interval(rate.value * different, different)
    return msgspec.structs.replace(rate, low=low, high=high)


def _count_alike(rows: Sequence[GuardRow], groups: Numbers) -> int:
    """Return how many rows without a named group share theirs with another text."""
    texts: dict[int, set[str]] = {}
    for row, group in zip(rows, groups.tolist(), strict=True):
        if not row.group:
            texts.setdefault(group, set()).add(row.plain_text)
    found = zip(rows, groups.tolist(), strict=True)
    return sum(not row.group and len(texts[group]) > 1 for row, group in found)


def _list_worst(rows: Sequence[GuardRow], scores: Floats, badness: Floats) -> tuple[WrongRow, ...]:
    ranked = np.argsort(-badness, kind="stable")[:_MAX_SHOWN]
    return tuple(
        WrongRow(text=rows[at].text, label=rows[at].label, score=float(scores[at]))
        for at in ranked
        if badness[at] >= 0
    )


def _measure_half(every: _TrainingData, card: GuardCard, groups: Floats) -> float | None:
    """Return the recall of models of half the groups, at as many false holds."""
    data = every.select(every.folds >= 0)
    half = every.order < np.median(data.order)
    inside = [every.labels[half & (every.folds != fold)] for fold in range(_MAX_FOLDS)]
    if any(len(set(labels.tolist())) < 2 for labels in inside):
        return None
    logits = _score_held_out(every, card.l2, half)[: len(data.labels)]
    slope, offset = _calibrate(logits, data.labels)
    scores = _chances(slope * logits + offset)
    allowed = int((groups > card.threshold).sum())
    highest = np.sort(_score_groups(data, scores))[::-1]
    threshold = max(MIN_THRESHOLD, float(highest[allowed]))
    return float((scores[data.labels == 1] > threshold).mean())


def _compare_half(recall: Rate, half: float | None) -> str:
    if half is None or recall.value is None:
        return "too few rows to say whether more would help"
    gain = recall.value - half
    trend = "more rows are likely to help" if gain > _MIN_GAIN else "more rows may hardly help"
    return f"with half of the rows recall is {format_percent(half)}: {trend}"


def _measure_calibration(scores: Floats, labels: Floats) -> float:
    bins = np.minimum((scores * 10).astype(np.int64), 9)
    distance = np.abs(np.bincount(bins, scores - labels, 10))
    return round(float(distance.sum() / len(scores)), 4)
