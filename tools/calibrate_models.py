"""Measure trained models on sources that they were not trained on, and put them in place.

    .venv/bin/python tools/calibrate_models.py ROWS TRAINED

ROWS is the folder that `tools/train_rows.py` wrote, TRAINED the output of
`tools/train_models.py`. The scores of each head are scaled on the sources for choosing, so that
they spread over 0 to 1; thresholds are scores that few harmless texts of these sources reach. The
files go to `models/src/demur_models`; the report is printed, source by source.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from demur_models import Head
from demur_models.network import Network, split_tokens
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "models" / "src" / "demur_models"
FAMILIES = tuple(json.loads((ROOT / "models" / "rows" / "families.json").read_text("utf-8")))
# The share of everyday texts, and of look-alikes, that may reach a threshold.
SHARES = {"harm": (0.01, 0.05), "injection": (0.001, 0.01), "planted": (0.002, 0.002)}
# The same for a warning, where a head has two thresholds.
WARN_SHARES = {"injection": (0.005, 0.025)}
# How much a logit loses with the length of a text; chosen on the sources for choosing.
LENGTH_SLOPES = {"injection": 1.5}
# Ordinary files have many windows; `bench/files.py --guard learned` counts those at or above this.
MIN_PLANTED = 0.999
Row = dict[str, Any]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def main(rows: Path, trained: Path) -> None:
    """Calibrate the models, print the report, and write the package's files."""
    vectors = json.loads((trained / "vectors.json").read_text(encoding="utf-8"))
    texts = read_rows(rows / "requests.jsonl")
    models = {
        # `bench/detect.py` measures the model of answers.
        "answers": {"sha256": _open_model(trained / "answers.npz")[1]},
        "documents": measure_texts(texts, trained, "documents", ("planted",)),
        "requests": measure_texts(texts, trained, "requests", ("harm", "injection")),
    }
    for name, content in (("models", models), ("vectors", vectors)):
        text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        (PLACE / f"{name}.json").write_text(text, encoding="utf-8")
    for name in models:
        shutil.copyfile(trained / f"{name}.npz", PLACE / f"{name}.npz")


def read_rows(path: Path) -> list[Row]:
    """Return the rows that were not trained on."""
    with path.open(encoding="utf-8") as lines:
        rows = map(json.loads, lines)
        return [row for row in rows if row["part"] not in {"train", "unlabelled"}]


def _open_model(path: Path) -> tuple[Network, str]:
    with np.load(path, allow_pickle=False) as arrays:
        return Network.from_arrays(arrays), hashlib.sha256(path.read_bytes()).hexdigest()


def measure_texts(
    rows: Sequence[Row], trained: Path, name: str, heads: Sequence[str]
) -> dict[str, Any]:
    """Calibrate the heads of a model, print their figures, and return the model's entry."""
    network, digest = _open_model(trained / f"{name}.npz")
    tokens = [split_tokens(row["text"]) for row in rows]
    logits = np.array([network.logits(one) for one in tokens], dtype=float)
    families = FAMILIES if "harm" in heads else ()
    entry: dict[str, Any] = {"sha256": digest, "heads": {}, "families": families}
    scores: dict[str, Floats] = {}
    for index, head in enumerate(heads):
        plain = Head(1.0, 0.0, 1.0, length_slope=LENGTH_SLOPES.get(head, 0.0))
        counts = zip(logits[:, index].tolist(), map(len, tokens), strict=True)
        own = np.array([plain.shorten(logit, count) for logit, count in counts])
        slope, shift = fit_scale(rows, head, own)
        scores[head] = 1 / (1 + np.exp(-(slope * own + shift)))
        found = {"slope": slope, "shift": shift, "length_slope": plain.length_slope}
        found["threshold"] = choose_threshold(rows, head, scores[head], SHARES[head])
        if head in WARN_SHARES:
            found["warn_threshold"] = choose_threshold(rows, head, scores[head], WARN_SHARES[head])
        entry["heads"][head] = found
    for cut in ("threshold", "warn_threshold"):
        least = {head: found[cut] for head, found in entry["heads"].items() if cut in found}
        if least:
            print(f"\nat or above the {cut.replace('_', ' ')}:")
            report_sources(rows, scores, least)
    report_areas(rows, scores)
    return entry


def fit_scale(rows: Sequence[Row], head: str, logits: Floats) -> tuple[float, float]:
    """Return slope and shift that fit the labels of the sources for choosing, classes alike."""
    labels = np.array([row[head] if row["part"] == "choose" else -1 for row in rows])
    known = labels >= 0
    values, wanted = logits[known], labels[known]
    weights = np.where(wanted == 1, 0.5 / wanted.sum(), 0.5 / (1 - wanted).sum())
    slope, shift = 1.0, 0.0
    for _ in range(400):
        error = weights * (1 / (1 + np.exp(-(slope * values + shift))) - wanted)
        slope -= 0.05 * float((error * values).sum())
        shift -= 0.2 * float(error.sum())
    return round(slope, 4), round(shift, 4)


def choose_threshold(
    rows: Sequence[Row], head: str, scores: Floats, shares: tuple[float, float]
) -> float:
    """Return the score that no more than these shares of everyday texts and look-alikes reach."""
    everyday, alike = shares
    if head == "planted":
        cut = _round_up(np.quantile(scores[find_rows(rows, planted=0)], 1 - everyday))
        return max(MIN_PLANTED, cut)
    plain, hard = (
        scores[find_rows(rows, part="choose", kind=kind)] for kind in ("everyday", "hard_benign")
    )
    return _round_up(max(np.quantile(plain, 1 - everyday), np.quantile(hard, 1 - alike)))


def _round_up(value: float) -> float:
    return round(min(0.9999, float(value) + 0.0001), 4)


def find_rows(rows: Sequence[Row], **wanted: object) -> Mask:
    """Return which rows have these values."""
    fields = wanted.items()
    return np.array([all(row[name] == value for name, value in fields) for row in rows])


def report_sources(rows: Sequence[Row], scores: dict[str, Floats], cuts: dict[str, float]) -> None:
    """Print the share of each source at or above the thresholds."""
    print(f"{'source':24} {'rows':>6}  " + "  ".join(f"{head:>9}" for head in cuts))
    for source in sorted({row["source"] for row in rows}):
        if (source.startswith("docs_")) != ("planted" in cuts):
            continue
        for label in ("harm", "hard_benign") if source == "contrast_check" else ("",):
            kept = find_rows(rows, source=source) & (not label or find_rows(rows, kind=label))
            shares = (f"{(scores[head][kept] >= cut).mean():9.3f}" for head, cut in cuts.items())
            print(f"{f'{source} {label}':24} {kept.sum():6}  " + "  ".join(shares))


def report_areas(rows: Sequence[Row], scores: dict[str, Floats]) -> None:
    """Print areas under the curve."""
    if "planted" in scores:
        marked, clean = (scores["planted"][find_rows(rows, planted=label)] for label in (1, 0))
        print(f"planted, documents: AUC {area_under_curve(marked, clean):.3f}")
        return
    harm, english = scores["harm"], find_rows(rows, language="en")
    harmful = find_rows(rows, kind="harm")
    chosen, checked = (find_rows(rows, part=part) for part in ("choose", "check"))
    everyday, hard = (find_rows(rows, kind=kind) for kind in ("everyday", "hard_benign"))
    sets = {
        "harm, English, against everyday": (harmful & chosen & english, everyday & chosen),
        "harm, English, against look-alikes": (harmful & chosen & english, hard & chosen),
        "harm, English, against both": (harmful & chosen & english, (everyday | hard) & chosen),
        "harm, contrast_check, English": (harmful & checked & english, hard & checked & english),
        "harm, contrast_check, others": (harmful & checked & ~english, hard & checked & ~english),
    }
    for name, (higher, lower) in sets.items():
        print(f"{name}: AUC {area_under_curve(harm[higher], harm[lower]):.3f}")


def area_under_curve(higher: Floats, lower: Floats) -> float:
    """Return how often a member of the first set scores above one of the second."""
    ranks = np.empty(len(higher) + len(lower))
    ranks[np.argsort(np.concatenate((higher, lower)), kind="stable")] = np.arange(1, len(ranks) + 1)
    count = len(higher)
    return float((ranks[:count].sum() - count * (count + 1) / 2) / (count * len(lower)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
