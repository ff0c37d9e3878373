"""How well refusals are told from answers, set by set, how far the confidence holds, how fast.

    python bench/detect.py FOLDER [--models MODELS]

FOLDER holds labelled sets, one JSON object a line (`prompt`, `response`, `label`, `lang`):
`A_*.jsonl`, and `train/answers.jsonl.xz`. A full refusal, or talking of something else instead,
is to be found; partial refusals and answers that are unable count as negative. Sources marked
`apart` took no part in choosing phrases, rules, calibration and thresholds. Each set is judged
by weights that saw neither it nor a set with the same prompts. `words` is demur without the
learned model, `learned` with it, `phrases` a plain list of phrases. The learned model that ships
was trained on all of these sources, so its column says nothing of new answers; MODELS holds
`SOURCE/answers.npz`, trained without that source, which are used instead.
Rates carry Wilson's 95 % interval; that of F1 is found by drawing the rows anew.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from demur_models import AnswerModel
from demur_models.network import Network

from demur.detect.detector import (
    RefusalKind,
    detect_refusal,
    judge_analysis,
)
from demur.detect.model import RefusalModel
from demur.detect.rules import is_doubtful, refusal_chance
from demur.learned import ScoresAnswer, load_answer_model

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from train_detect import (
    ANSWERS,
    CALIBRATING,
    KEPT_APART,
    PARTIAL_SHARE,
    SETS,
    THRESHOLDS,
    Row,
    calibrate_apart,
    own_sets,
    read_answers,
    read_set,
    train,
)

DRAWS = 400
BINS = 10
# Sources of `train/answers.jsonl.xz` that no other file holds.
ONLY_ANSWERS = ("coconot_pref", "arena", "gpteacher")
PLAIN = (
    "i cannot",
    "i can't",
    "i can\u2019t",
    "i am unable",
    "i'm unable",
    "i\u2019m unable",
    "i won't",
    "i\u2019m sorry",
    "i'm sorry",
    "i am sorry",
    "i apologize",
    "unable to assist",
    "cannot assist",
    "can't assist",
    "as an ai",
    "as a language model",
    "not able to help",
    "against my programming",
    "not appropriate",
    "illegal and unethical",
)


class Verdict(NamedTuple):
    """What one side says about one row."""

    kind: RefusalKind
    confidence: float
    chance: float

    @property
    def full(self) -> bool:
        """Whether it is a full refusal."""
        return self.kind is RefusalKind.FULL

    def is_right(self, label: str) -> bool:
        """Return whether the kind is right. Labels do not know inability."""
        if label in ("refused", "deflected"):
            return self.full
        if label == "partial":
            return self.kind in (RefusalKind.PARTIAL, RefusalKind.UNABLE)
        return self.kind in (RefusalKind.NONE, RefusalKind.UNABLE)


Judge = Callable[[Row], Verdict]


class Counts(NamedTuple):
    """Right and wrong judgements."""

    hit: int
    false: int
    missed: int

    @property
    def precision(self) -> float:
        """The share of full refusals among those found."""
        return self.hit / max(1, self.hit + self.false)

    @property
    def recall(self) -> float:
        """The share of full refusals that were found."""
        return self.hit / max(1, self.hit + self.missed)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.hit / max(1, 2 * self.hit + self.false + self.missed)


def count(wanted: Any, found: Any) -> Counts:
    """Return the counts of two columns of truth."""
    return Counts(
        int((found & wanted).sum()), int((found & ~wanted).sum()), int((~found & wanted).sum())
    )


def wilson(hits: int, total: int) -> str:
    """Return a rate with its 95 % interval."""
    if not total:
        return "-"
    rate, z = hits / total, 1.96
    middle = (rate + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total))
    half /= 1 + z * z / total
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return f"{hits} of {total}: {100 * rate:.1f} % ({100 * low:.1f}-{100 * high:.1f})"


def f1_interval(wanted: Any, found: Any) -> str:
    """Return F1 with an interval from rows drawn anew, by a fixed seed."""
    draw = np.random.default_rng(0)
    values = []
    for _ in range(DRAWS):
        rows = draw.integers(0, len(wanted), len(wanted))
        values.append(count(wanted[rows], found[rows]).f1)
    low, high = np.quantile(values, (0.025, 0.975))
    return f"{count(wanted, found).f1:.3f} ({low:.2f}-{high:.2f})"


def phrases(row: Row) -> Verdict:
    """Return what a plain list of phrases says, looked for in the first 300 characters."""
    head = row.fields["response"][:300].lower()
    found = any(phrase in head for phrase in PLAIN)
    return Verdict(RefusalKind.FULL if found else RefusalKind.NONE, 1.0, float(found))


def ours(model: RefusalModel, scorer: ScoresAnswer | None = None) -> Judge:
    """Return the judgement of demur with this model in place of the one that ships."""

    def judge(row: Row) -> Verdict:
        if not row.seen.acts:
            return Verdict(RefusalKind.NONE, 1.0, 0.0)
        prompt = row.fields["prompt"]
        chance = refusal_chance(row.seen, prompt, model)
        digest = None
        if scorer is not None and is_doubtful(row.seen, prompt, chance):
            chance = model.combine(chance, scorer.score_answer(prompt, row.fields["response"]))
            digest = scorer.digest
        detection = judge_analysis(row.seen, chance, prompt, digest)
        return Verdict(detection.kind, detection.confidence, chance)

    return judge


def calibration_error(
    verdicts: Sequence[Verdict], rows: Sequence[Row], *, kinds: bool = False
) -> float:
    """Return the expected calibration error: how far confidence lies from the share right."""
    return sum(
        abs(sure - right) * number / len(rows)
        for _, number, sure, right in reliability(verdicts, rows, kinds=kinds)
    )


def reliability(
    verdicts: Sequence[Verdict], rows: Sequence[Row], *, kinds: bool
) -> list[tuple[int, int, float, float]]:
    """Return each bin of confidence, its rows, their mean confidence, and the share right.

    Without `kinds`, what counts is whether the answer refuses in full or not.
    """
    pairs = list(zip(verdicts, rows, strict=True))
    if kinds:
        sure = np.array([one.confidence for one in verdicts])
        right = np.array([one.is_right(row.fields["label"]) for one, row in pairs])
    else:
        sure = np.array([one.chance if one.full else 1 - one.chance for one in verdicts])
        right = np.array([one.full == row.positive for one, row in pairs])
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    return [
        (index, int(picked.sum()), float(sure[picked].mean()), float(right[picked].mean()))
        for index in range(BINS)
        if (picked := bins == index).any()
    ]


def report(name: str, rows: Sequence[Row], sides: dict[str, list[Verdict]]) -> None:
    """Print one set: what each side finds, its false alarms and its calibration."""
    wanted = np.array([row.positive for row in rows], dtype=bool)
    apart = ", apart" if name in KEPT_APART else ""
    print(f"{name} ({len(rows)} rows, {int(wanted.sum())} refusals{apart})")
    for side, verdicts in sides.items():
        found = np.array([one.full for one in verdicts], dtype=bool)
        cells = []
        if wanted.any():
            counts = count(wanted, found)
            cells.append(f"P {counts.precision:.3f} R {counts.recall:.3f}")
            cells.append(f"F1 {f1_interval(wanted, found)}")
        else:
            cells.append(f"false {wilson(int(found.sum()), len(rows))}")
        if side != "phrases":
            error = calibration_error(verdicts, rows)
            by_kind = calibration_error(verdicts, rows, kinds=True)
            cells.append(f"calibration error {error:.3f} (kinds {by_kind:.3f})")
        print(f"  {side:8} {', '.join(cells)}")
        for what, picked in safe_rows(rows):
            print(f"    full on {what}: {wilson(int(found[picked].sum()), int(picked.sum()))}")
    labels = dict.fromkeys(row.fields["label"] for row in rows)
    if "partial" in labels:
        kinds = list(RefusalKind)
        verdicts = list(sides.values())[-1]
        for label in labels:
            pairs = zip(verdicts, rows, strict=True)
            mine = [one.kind for one, row in pairs if row.fields["label"] == label]
            print(f"    {label}: {', '.join(f'{kind} {mine.count(kind)}' for kind in kinds)}")


def safe_rows(rows: Sequence[Row]) -> list[tuple[str, Any]]:
    """Return the rows with safe prompts: all of them, and those that were answered."""
    safe = np.array([row.fields.get("prompt_label") == "safe" for row in rows])
    complied = np.array([row.fields["label"] == "complied" for row in rows])
    if not safe.any():
        return []
    return [("safe prompts", safe), ("safe prompts that were answered", safe & complied)]


def print_reliability(verdicts: Sequence[Verdict], rows: Sequence[Row]) -> None:
    """Print how often a judgement was right, by confidence: full or not, and the kind."""
    for what, kinds in (("full or not", False), ("kind", True)):
        print(f"reliability on the sources apart, {what}\n  confidence  rows  mean  right")
        for index, number, sure, right in reliability(verdicts, rows, kinds=kinds):
            bar = "#" * round(20 * right)
            low = index / BINS
            print(f"  {low:.1f}-{low + 1 / BINS:.1f}  {number:8}  {sure:.2f}   {right:.2f}  {bar}")
        print(f"  expected calibration error {calibration_error(verdicts, rows, kinds=kinds):.3f}")


def by_language(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> None:
    """Print F1 for each language."""
    cells = []
    for language in sorted({row.fields["lang"] for row in rows}):
        picked = [
            (row, one)
            for row, one in zip(rows, verdicts, strict=True)
            if row.fields["lang"] == language
        ]
        wanted = np.array([row.positive for row, _ in picked], dtype=bool)
        found = np.array([one.full for _, one in picked], dtype=bool)
        cells.append(f"{language} {count(wanted, found).f1:.2f}")
    print(f"  by language, 50 rows each: {', '.join(cells)}")


def speed(rows: Sequence[Row]) -> None:
    """Print the time for answers of about 1 KB, without and with a learned model."""
    texts = [row.fields["response"] for row in rows]
    texts = [text for text in texts if 900 <= len(text.encode()) <= 1200][:600]
    asked = "How do I take down the sign on the wall of the house next door?"
    for what, prompt, learned in (
        ("first time", None, False),
        ("again", None, False),
        ("with a prompt", asked, False),
        ("with a prompt and a learned model", asked, True),
    ):
        taken = []
        for text in texts:
            start = time.perf_counter()
            detect_refusal(text, prompt, learned=learned)
            taken.append(time.perf_counter() - start)
        middle = statistics.median(taken) * 1e6
        print(
            f"1 KB answer, {what}: p50 {middle:.0f} µs, p90 {np.quantile(taken, 0.9) * 1e6:.0f} µs"
        )
    huge = "I can't help with that. " + "a lot of text. " * 700_000
    start = time.perf_counter()
    detect_refusal(huge)
    print(f"10 MB answer: {(time.perf_counter() - start) * 1e3:.1f} ms")


def prompts_of(name: str) -> str:
    """Return the name of the prompts of a set: two of them hold answers to the same."""
    return "xstest" if "xstest" in name else name.removeprefix("A_")


def open_scorer_without(name: str, models: Path | None) -> ScoresAnswer | None:
    """Return the model that was trained without the source of a set, if there is one."""
    source = {"xstest": "xstest_mistral"}.get(prompts_of(name), prompts_of(name))
    path = None if models is None else models / source / "answers.npz"
    if path is None or not path.exists():
        return None
    with np.load(path, allow_pickle=False) as arrays:
        return AnswerModel(Network.from_arrays(arrays), f"without {source}")


def main() -> int:
    """Print everything."""
    parser = argparse.ArgumentParser(description="measure demur.detect")
    parser.add_argument("folder", nargs="?", type=Path, help="holds A_*.jsonl")
    parser.add_argument("--models", type=Path, help="holds models trained without a source")
    options = parser.parse_args()
    folder = options.folder
    paths = [] if folder is None else [one for glob in SETS for one in sorted(folder.glob(glob))]
    if folder is None or not paths:
        print("detect: there is no folder of labelled sets; give one: bench/detect.py FOLDER")
        return 0
    sets = {path.stem: read_set(path) for path in paths}
    answers = read_answers(folder / ANSWERS, (*CALIBRATING, *ONLY_ANSWERS))
    calibrating = {source: answers[source] for source in CALIBRATING}
    calibrations = calibrate_apart(sets, calibrating)
    scorer = load_answer_model()
    own, means = own_sets(), []
    apart: tuple[list[Verdict], list[Row]] = ([], [])
    for name, rows in (sets | {name: answers[name] for name in ONLY_ANSWERS}).items():
        others = [kept for other, kept in sets.items() if prompts_of(other) != prompts_of(name)]
        model = train([*others, *own])._replace(
            calibrations=calibrations, thresholds=THRESHOLDS, partial_share=PARTIAL_SHARE
        )
        judges: dict[str, Judge] = {"phrases": phrases, "words": ours(model)}
        if scorer is not None:
            judges["learned"] = ours(model, open_scorer_without(name, options.models) or scorer)
        sides = {side: [judge(row) for row in rows] for side, judge in judges.items()}
        report(name, rows, sides)
        last = list(sides.values())[-1]
        if name in KEPT_APART:
            apart[0].extend(last)
            apart[1].extend(rows)
        if name == "A_poly_qwen":
            by_language(rows, last)
        wanted = np.array([row.positive for row in rows], dtype=bool)
        if wanted.any():
            full = (np.array([one.full for one in side]) for side in sides.values())
            means.append([count(wanted, found).f1 for found in full])
    shown = zip(judges, np.mean(means, axis=0), strict=True)
    print(f"mean F1: {', '.join(f'{side} {value:.3f}' for side, value in shown)}")
    print_reliability(*apart)
    speed(sets.get("A_gptfuzz", []) or next(iter(sets.values())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
