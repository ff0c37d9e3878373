"""Train the weights of `demur.detect` from labelled answers.

    python tools/train_detect.py FOLDER [--check]

FOLDER holds `A_*.jsonl`: one JSON object a line with `prompt`, `response` and `label`
(`refused`, `deflected`, `partial` or `complied`). A full refusal, in words or by talking of
something else, counts as one; the rest do not, and a partial refusal counts half-heartedly
against it. `E_p3_tasks.jsonl`, texts that people wrote for other ends, stands for everything
else that an answer may hold, none of it a refusal; demur's own graceful refusals stand for how
refusals should be. The answers of our own in `models/rows` show one prompt refused, answered in
part and answered, in twenty-one languages. Large sets are weighed down, so that no one source of
answers decides alone.

What is fitted is a logistic model with a strong pull towards zero, by Newton's method: no
randomness, the same rows give the same file. `--check` fails if the file would change.

The chances are then calibrated, rule by rule, on `train/answers.jsonl.xz` in the same folder.
Each source of it is judged by weights that were trained on other sources. The sources of
`KEPT_APART` take no part in the calibration and the thresholds; `bench/detect.py` measures on
them with weights that never saw them. The learned model of answers is calibrated on the answers
of our own in `tests/unit/detect`.
"""

import argparse
import json
import lzma
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from demur.detect.model import (
    FEATURE_NAMES,
    SCHEMA_VERSION,
    Calibration,
    Ground,
    RefusalModel,
    extract_features,
    to_logit,
)
from demur.detect.rules import choose_ground
from demur.detect.speech_acts import AnswerAnalysis, analyze_answer
from demur.learned import INSTALL_HELP, load_answer_model
from demur.respond.graceful import render_samples

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from unit.detect.fresh import FRESH, SECOND
from unit.detect.held_out import ASKED, ROWS
from unit.detect.kinds import KINDS

TARGET = Path(__file__).parent.parent / "src" / "demur" / "detect" / "model.json"
SETS = ("A_*.jsonl", "E_p3_tasks.jsonl")
OWN_ROWS = Path(__file__).parent.parent / "models" / "rows"
POSITIVE = {"refused", "deflected"}
# Words of demur's that help or go ahead rather than refuse.
NO_REFUSALS = {"crisis", "within_limits"}
PULL = 15.0
# What needs a certain kind of prompt or answer is seen seldom: the same pull would hide it.
SELDOM = {
    *("unclear", "unknowing+refusing", "private+unknowing"),
    *("reason+moral", "reason+rebuke", "premise_turned", "premise_kept"),
}
SELDOM_PULL = PULL / 9
# A missed refusal weighs a little more than a false alarm: the even chance is moved by this.
LEAN = 0.2
LARGEST = 600
TEXTS = 250
OWN = 100
PARTIAL = 0.4
STEPS = 40

KEPT_APART = ("A_rbr_gold", "A_xstest_mistralguard", "A_xstest_mistralinstruct")
ANSWERS = Path("train") / "answers.jsonl.xz"
# The weight of each source in the calibration. Sources without refusals weigh less; made-up
# partial refusals say something only of the rule on partial refusals.
CALIBRATING = {
    "gptfuzz": 1000.0,
    "poly_qwen": 1000.0,
    "arena": 150.0,
    "gpteacher": 100.0,
    "selfinstruct": 100.0,
    "syn_disclaimer": 100.0,
    "syn_partial": 60.0,
}
# Answers of our own: prompt, answer and kind.
OWN_ANSWERS: tuple[tuple[str | None, str, str], ...] = (
    *((row.prompt, row.answer, row.kind) for row in (*FRESH, *SECOND)),
    *((row.prompt, row.answer, row.kind) for row in ASKED),
    *((row.prompt, row.answer, row.kind) for row in KINDS),
    *((None, row.answer, row.kind) for row in ROWS),
)
LABELS = ("complied", "partial", "refused")
# How strongly a calibration is drawn to "no change": offset and slope.
CALIBRATION_PULL = np.array([0.5, 4.0])
# No source holds enough of these answers.
FIXED = {"bare_no": Calibration(1.4, 0.0), "answered": Calibration(-3.5, 0.0)}
# Chosen by F1 on the calibrating sources, each judged by weights that never saw it.
THRESHOLDS = {"words": 0.45, "learned": 0.45}
# How much of the learned model's logit counts. This is a judgement, not a fit: on sources that it
# never saw the model adds nothing, and costs at most .008 of F1 with this share. It may help on
# answers to prompts that it knows.
LEARNED_SHARE = 0.3
PARTIAL_SHARE = 0.7


class Row(NamedTuple):
    """A labelled answer, what its sentences do, and its features if it has any sentence.

    `alone` are its features for a judge who does not know the prompt.
    """

    fields: dict[str, Any]
    seen: AnswerAnalysis
    features: tuple[float, ...] | None
    alone: tuple[float, ...] | None
    positive: bool


def read_set(path: Path) -> list[Row]:
    """Return the rows of a labelled set; a set of texts is read as answers without a prompt."""
    found = []
    for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n"):
        fields = json.loads(line)
        if "response" not in fields:
            fields = {**fields, "prompt": None, "response": fields.get("text") or fields["prompt"]}
        found.append(_row(fields))
    return found


def own_sets() -> list[list[Row]]:
    """Return the rows that everything is trained on: our graceful refusals, and our answers."""
    return [_graceful_refusals(), _own_answers()]


def _own_answers() -> list[Row]:
    """Return the answers of our own in `models/rows`."""
    return [
        _row({**row, "response": row["answer"], "label": LABELS[row["label"]]})
        for path in sorted(OWN_ROWS.glob("answers*.jsonl"))
        for row in map(json.loads, path.read_text(encoding="utf-8").rstrip("\n").split("\n"))
    ]


def _graceful_refusals() -> list[Row]:
    """Return demur's own graceful refusals, in every language that it writes them in."""
    words = dict.fromkeys(
        sample.refusal.text
        for sample in render_samples()
        if sample.refusal.template not in NO_REFUSALS
    )
    row = {"prompt": None, "label": "refused", "own": True}
    return [_row({**row, "response": text}) for text in words]


def _row(fields: dict[str, Any]) -> Row:
    seen = analyze_answer(fields["response"])
    return Row(
        fields=fields,
        seen=seen,
        features=_numbers(seen, fields["prompt"]),
        alone=_numbers(seen, None),
        positive=fields["label"] in POSITIVE,
    )


def _numbers(seen: AnswerAnalysis, prompt: str | None) -> tuple[float, ...] | None:
    return tuple(extract_features(seen.answer, seen.acts, prompt)) if seen.acts else None


def logistic(rows: Any, wanted: Any, weight: Any, pull: Any) -> Any:
    """Return the weights, the bias last, that explain `wanted` best under the pull to zero."""
    design = np.hstack([rows, np.ones((len(rows), 1))])
    penalty = np.append(pull, 1e-6)
    found = np.zeros(design.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-design @ found))
        slope = design.T @ (weight * (chance - wanted)) + penalty * found
        bend = (design.T * (weight * chance * (1 - chance))) @ design + np.diag(penalty)
        step = np.linalg.solve(bend, slope)
        found -= step
        if np.abs(step).max() < 1e-8:
            break
    return found


def read_answers(path: Path, sources: Iterable[str] = CALIBRATING) -> dict[str, list[Row]]:
    """Return the rows of these sources in a file of labelled answers."""
    found: dict[str, list[Row]] = {source: [] for source in sources}
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["source"] in found:
                label = LABELS[row["label"]]
                fields = {"response": row["answer"], "label": label, "lang": row["language"]}
                found[row["source"]].append(_row({**row, **fields}))
    return found


def calibrate(
    models: dict[str, RefusalModel], answers: dict[str, list[Row]]
) -> dict[str, Calibration]:
    """Return the calibration of each ground; `models` judge a source that they never saw."""
    found = {}
    for ground in Ground:
        logits, wanted, weight = [], [], []
        for source, rows in answers.items():
            if source == "syn_partial" and ground is not Ground.IN_PART:
                continue
            for row in rows:
                if row.features and choose_ground(row.seen, row.fields["prompt"]) is ground:
                    logits.append(models[source].refusal_logit(row.features))
                    wanted.append(float(row.positive))
                    weight.append(CALIBRATING[source] / len(rows))
        found[str(ground)] = fit_calibration(logits, wanted, weight)
    return {**found, **FIXED}


def fit_calibration(
    logits: Sequence[float], wanted: Sequence[float], weight: Sequence[float]
) -> Calibration:
    """Return the offset and slope that fit best, drawn to "no change"."""
    design = np.column_stack([np.ones(len(logits)), logits])
    none = np.array([0.0, 1.0])
    found = none
    for _ in range(2 * STEPS if logits else 0):
        chance = 1 / (1 + np.exp(-np.clip(design @ found, -30, 30)))
        slope = design.T @ (weight * (chance - wanted)) + CALIBRATION_PULL * (found - none)
        bend = (design.T * (weight * chance * (1 - chance))) @ design + np.diag(CALIBRATION_PULL)
        found = found - np.clip(np.linalg.solve(bend, slope), -1, 1)
    return Calibration(*(round(float(value), 3) for value in found))


def weights_of(rows: Sequence[Row]) -> list[float]:
    """Return how much each row of one set counts."""
    first = rows[0]
    largest = (
        OWN if first.fields.get("own") else LARGEST if first.fields["prompt"] is not None else TEXTS
    )
    share = min(1.0, largest / len(rows))
    return [share * (PARTIAL if row.fields["label"] == "partial" else 1.0) for row in rows]


def train(sets: Iterable[Sequence[Row]]) -> RefusalModel:
    """Return the model fitted to all these sets together."""
    # Half with its prompt and half without: the weights then serve where none is known.
    kept = [
        (numbers, row.positive, weight / 2)
        for rows in sets
        for row, weight in zip(rows, weights_of(rows), strict=True)
        for numbers in (row.features, row.alone)
        if numbers is not None
    ]
    numbers, positive, weight = map(np.array, zip(*kept, strict=True))
    pull = np.array([SELDOM_PULL if name in SELDOM else PULL for name in FEATURE_NAMES])
    found = logistic(numbers, positive.astype(float), weight, pull)
    # Rounded, so that another machine's last digits make no other file.
    rounded = [round(float(value), 4) for value in found]
    return RefusalModel(tuple(rounded[:-1]), round(rounded[-1] + LEAN, 4))


def calibrate_apart(
    sets: dict[str, list[Row]], answers: dict[str, list[Row]]
) -> dict[str, Calibration]:
    """Return the calibrations, with no source judged by weights that saw it or one kept apart."""
    tuning = {name: rows for name, rows in sets.items() if name not in KEPT_APART}
    own = own_sets()
    models = {
        source: train([*(rows for name, rows in tuning.items() if source not in name), *own])
        for source in answers
    }
    return {**calibrate(models, answers), "learned": calibrate_learned()}


def calibrate_learned() -> Calibration:
    """Return the calibration of the learned model, on answers of our own that it never saw.

    Its scores on the sources that it was trained on would be taken for surer than they are.
    """
    scorer = load_answer_model()
    if scorer is None:
        raise SystemExit(f"the learned model of answers is missing; {INSTALL_HELP}")
    logits = [to_logit(scorer.score_answer(prompt, answer)) for prompt, answer, _ in OWN_ANSWERS]
    wanted = [float(kind == "full") for *_, kind in OWN_ANSWERS]
    found = fit_calibration(logits, wanted, [1.0] * len(OWN_ANSWERS))
    return Calibration(*(round(LEARNED_SHARE * value, 3) for value in found))


def as_text(model: RefusalModel) -> str:
    """Return the model as its file holds it."""
    content = {
        "schema_version": SCHEMA_VERSION,
        "thresholds": dict(model.thresholds),
        "partial_share": model.partial_share,
        "calibrations": {key: list(value) for key, value in model.calibrations.items()},
        "bias": model.bias,
        "weights": dict(zip(FEATURE_NAMES, model.weights, strict=True)),
    }
    return json.dumps(content, indent=1) + "\n"


def main() -> int:
    """Write the model, or say whether it is up to date."""
    parser = argparse.ArgumentParser(description="train the weights of demur.detect")
    parser.add_argument("folder", type=Path, help="holds A_*.jsonl")
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    args = parser.parse_args()
    paths = [path for pattern in SETS for path in sorted(args.folder.glob(pattern))]
    if not paths:
        print(f"{args.folder}: there is no A_*.jsonl")
        return 1
    sets = {path.stem: read_set(path) for path in paths}
    calibrations = calibrate_apart(sets, read_answers(args.folder / ANSWERS))
    model = train([*sets.values(), *own_sets()])._replace(
        calibrations=calibrations, thresholds=THRESHOLDS, partial_share=PARTIAL_SHARE
    )
    text = as_text(model)
    if args.check:
        same = TARGET.read_text(encoding="utf-8") == text
        print("up to date" if same else f"{TARGET.name} would change")
        return 0 if same else 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET.name}: {len(FEATURE_NAMES)} weights from {len(paths)} sets")
    return 0


if __name__ == "__main__":
    sys.exit(main())
