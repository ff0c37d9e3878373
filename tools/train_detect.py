"""Train the weights of `demur.detect` from labelled answers.

    python tools/train_detect.py FOLDER [--check]

FOLDER holds `A_*.jsonl`: one JSON object a line with `prompt`, `response` and `label`
(`refused`, `deflected`, `partial` or `complied`). A full refusal, in words or by talking of
something else, counts as one; the rest do not, and a partial refusal counts half-heartedly
against it. `E_p3_tasks.jsonl`, texts that people wrote for other ends, stands for everything
else that an answer may hold, none of it a refusal; demur's own graceful refusals stand for how
refusals should be. Large sets are weighed down, so that no one source of answers decides alone.

What is fitted is a logistic model with a strong pull towards zero, by Newton's method: no
randomness, the same rows give the same file. `--check` fails if the file would change.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from demur.detect.model import FEATURE_NAMES, SCHEMA_VERSION, RefusalModel, extract_features
from demur.detect.speech_acts import AnswerAnalysis, analyze_answer
from demur.respond.graceful import render_samples

TARGET = Path(__file__).parent.parent / "src" / "demur" / "detect" / "model.json"
SETS = ("A_*.jsonl", "E_p3_tasks.jsonl")
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


def own_set() -> list[Row]:
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


def as_text(model: RefusalModel) -> str:
    """Return the model as its file holds it."""
    content = {
        "schema_version": SCHEMA_VERSION,
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
    text = as_text(train([*(read_set(path) for path in paths), own_set()]))
    if args.check:
        same = TARGET.read_text(encoding="utf-8") == text
        print("up to date" if same else f"{TARGET.name} would change")
        return 0 if same else 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET.name}: {len(FEATURE_NAMES)} weights from {len(paths)} sets")
    return 0


if __name__ == "__main__":
    sys.exit(main())
