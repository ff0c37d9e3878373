"""How well refusals are told from answers, set by set, and how fast.

    python bench/detect.py FOLDER

FOLDER holds labelled sets, one JSON object a line (`prompt`, `response`, `label`, `lang`):
`A_*.jsonl`. A full refusal, or talking of something else instead, is what is to be found. Each
set is judged by a model that was trained on the other sets alone. Beside it stand a plain list
of phrases, the rules without training, and words learned from the same rows in place of acts.
Rates carry Wilson's 95 % interval; that of F1 is found by drawing the rows anew.
"""

import argparse
import math
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from demur.detect.detector import detect_refusal
from demur.detect.model import RefusalModel
from demur.detect.rules import REFUSAL_THRESHOLD, declines_plainly, refusal_chance
from demur.detect.speech_acts import SpeechAct

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from train_detect import SETS, Row, own_set, read_set, train, weights_of

Judge = Callable[[Row], bool]
BUCKETS = 4096
WORD_PULL = 4.0
DRAWS = 400
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
REBUKE = 1 << SpeechAct.REBUKE
HELPING = 1 << SpeechAct.COMPLY | 1 << SpeechAct.TURN
AIMS = {
    "A_xstest_mistralinstruct": 0.93,
    "A_xstest_mistralguard": 0.93,
    "A_gptfuzz": 0.88,
    "A_rbr_gold": 0.75,
    "A_poly_qwen (not English)": 0.85,
}


class Counts(NamedTuple):
    """Right and wrong judgements."""

    hit: int
    false: int
    missed: int
    passed: int

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.hit / max(1, 2 * self.hit + self.false + self.missed)


def count(wanted: Any, found: Any) -> Counts:
    """Return the four counts of two columns of truth."""
    return Counts(
        int((found & wanted).sum()),
        int((found & ~wanted).sum()),
        int((~found & wanted).sum()),
        int((~found & ~wanted).sum()),
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
    return f"{100 * rate:.1f} % ({100 * low:.1f}-{100 * high:.1f})"


def f1_interval(wanted: Any, found: Any) -> str:
    """Return F1 with an interval from rows drawn anew, by a fixed seed."""
    draw = np.random.default_rng(0)
    values = []
    for _ in range(DRAWS):
        rows = draw.integers(0, len(wanted), len(wanted))
        values.append(count(wanted[rows], found[rows]).f1)
    low, high = np.quantile(values, (0.025, 0.975))
    return f"{count(wanted, found).f1:.3f} ({low:.2f}-{high:.2f})"


def phrases(row: Row) -> bool:
    """Return what a plain list of phrases says, looked for in the first 300 characters."""
    head = row.fields["response"][:300].lower()
    return any(phrase in head for phrase in PLAIN)


def rules(row: Row) -> bool:
    """Return what the acts say without training: declines or rebukes at once, helps little."""
    acts = row.seen.acts
    if declines_plainly(row.seen):
        return True
    if not acts or not (acts[0] & REBUKE or any(seen & 1 for seen in acts[:3])):
        return False
    helped = sum(
        one.end - one.start
        for one, seen in zip(row.seen.answer.sentences, acts, strict=True)
        if not seen & ~HELPING
    )
    return helped < 200


def ours(model: RefusalModel, *, prompted: bool = True) -> Judge:
    """Return the judgement of demur with this model in place of the one that ships."""

    def judge(row: Row) -> bool:
        if not row.seen.acts:
            return False
        prompt = row.fields["prompt"] if prompted else None
        return refusal_chance(row.seen, prompt, model) >= REFUSAL_THRESHOLD

    return judge


def hashed(row: Row) -> Any:
    """Return which words and pairs of words an answer's head holds, by their hash."""
    words = " ".join(one.words for one in row.seen.answer.sentences)[:600].split()
    grams = {*words, *map(" ".join, pairwise(words))}
    found = np.zeros(BUCKETS)
    found[[zlib.crc32(gram.encode()) % BUCKETS for gram in grams]] = 1
    return found


def words_model(sets: Sequence[Sequence[Row]], columns: dict[int, Any]) -> Judge:
    """Return the judgement of a linear model over words, trained on the same rows."""
    rows = [row for one in sets for row in one]
    weight = np.array([value for one in sets for value in weights_of(one)])
    wanted = np.array([float(row.positive) for row in rows])
    found = ridge(np.array([columns[id(row)] for row in rows]), wanted, weight)
    return lambda row: bool(columns[id(row)] @ found[:-1] + found[-1] >= 0.5)


def ridge(rows: Any, wanted: Any, weight: Any) -> Any:
    """Return the least-squares weights: as good as logistic here, and quick on many columns."""
    design = np.hstack([rows, np.ones((len(rows), 1))])
    scaled = design.T * weight
    return np.linalg.solve(scaled @ design + WORD_PULL * np.eye(design.shape[1]), scaled @ wanted)


def verdicts(judge: Judge, rows: Sequence[Row]) -> Any:
    """Return the judgements as a column."""
    return np.array([judge(row) for row in rows], dtype=bool)


def report(name: str, rows: Sequence[Row], judges: dict[str, Judge]) -> None:
    """Print one set: F1 of each side, and where demur goes wrong."""
    wanted = np.array([row.positive for row in rows], dtype=bool)
    found = {
        side: verdicts(judge, rows) for side, judge in judges.items() if side != "without prompt"
    }
    if not wanted.any():
        print(f"{name} ({len(rows)} rows, no refusals)")
    else:
        cells = [f"{side} {count(wanted, column).f1:.3f}" for side, column in found.items()]
        aim = AIMS.get(name)
        met = "" if aim is None else _met(count(wanted, found["demur"]).f1, aim)
        print(f"{name} ({len(rows)} rows, {int(wanted.sum())} refusals)")
        print(f"  F1 {f1_interval(wanted, found['demur'])}{met}   beside: {', '.join(cells[1:])}")
        clear = np.array([row.fields["label"] != "partial" for row in rows])
        if not clear.all():
            apart = count(wanted[clear], found["demur"][clear]).f1
            print(f"  with partial refusals set aside: F1 {apart:.3f}")
        if rows[0].fields["prompt"] is not None:
            apart = count(wanted, verdicts(judges["without prompt"], rows)).f1
            print(f"  for a judge who does not know the prompt: F1 {apart:.3f}")
    for what, picked in _harmless(rows):
        totals = [f"{side} {int(column[picked].sum())}" for side, column in found.items()]
        rate = wilson(int(found["demur"][picked].sum()), int(picked.sum()))
        print(f"  false alarms on {what}: {rate}; rows of {int(picked.sum())}: {', '.join(totals)}")


def _met(value: float, aim: float) -> str:
    return f", aim {aim:.2f} {'met' if value >= aim else 'NOT met'}"


def _harmless(rows: Sequence[Row]) -> list[tuple[str, Any]]:
    safe = np.array(
        [
            row.fields.get("prompt_label") == "safe" and row.fields["label"] == "complied"
            for row in rows
        ]
    )
    human = np.array([row.fields.get("model") == "human" for row in rows])
    found = [("answers to safe prompts", safe), ("answers by people", human)]
    if "response" in rows[0].fields and rows[0].fields["prompt"] is None:
        found.append(("texts by people", np.ones(len(rows), dtype=bool)))
    return [(what, picked) for what, picked in found if picked.any()]


def three_ways(rows: Sequence[Row]) -> None:
    """Print how full, partial and none fall out where people told them apart."""
    labels = ("refused", "partial", "complied")
    if not {row.fields["label"] for row in rows} >= set(labels):
        return
    table = {label: [0, 0, 0] for label in (*labels, "deflected")}
    for row in rows:
        kind = detect_refusal(row.fields["response"], row.fields["prompt"]).kind
        table[row.fields["label"]][("full", "partial", "none").index(kind)] += 1
    shown = "; ".join(f"{label} {counts}" for label, counts in table.items() if any(counts))
    print(f"  [full, partial, none] by label, shipped model (trained on these rows too): {shown}")


def speed(rows: Sequence[Row]) -> None:
    """Print the time for answers of about 1 KB: each once, and each again."""
    texts = [row.fields["response"] for row in rows]
    texts = [text for text in texts if 900 <= len(text.encode()) <= 1200][:600]
    asked = "How do I take down the sign on the wall of the house next door?"
    for what, prompt in (("first time", None), ("again", None), ("with a prompt", asked)):
        taken = []
        for text in texts:
            start = time.perf_counter()
            detect_refusal(text, prompt)
            taken.append(time.perf_counter() - start)
        middle = statistics.median(taken) * 1e6
        print(
            f"1 KB answer, {what}: p50 {middle:.0f} µs, p90 {np.quantile(taken, 0.9) * 1e6:.0f} µs"
        )
    huge = "I can't help with that. " + "a lot of text. " * 700_000
    start = time.perf_counter()
    detect_refusal(huge)
    print(f"10 MB answer: {(time.perf_counter() - start) * 1e3:.1f} ms")


def main() -> int:
    """Print everything."""
    parser = argparse.ArgumentParser(description="measure demur.detect")
    parser.add_argument("folder", nargs="?", type=Path, help="holds A_*.jsonl")
    folder = parser.parse_args().folder
    paths = [] if folder is None else [one for glob in SETS for one in sorted(folder.glob(glob))]
    if not paths:
        print("detect: there is no folder of labelled sets; give one: bench/detect.py FOLDER")
        return 0
    sets = {path.stem: read_set(path) for path in paths}
    columns = {id(row): hashed(row) for rows in sets.values() for row in rows}
    for name, rows in sets.items():
        others = [kept for other, kept in sets.items() if other != name]
        model = train([*others, own_set()])
        judges = {
            "demur": ours(model),
            "without prompt": ours(model, prompted=False),
            "phrases": phrases,
            "rules": rules,
            "words": words_model(others, columns),
        }
        if name == "A_poly_qwen":
            foreign = [row for row in rows if row.fields["lang"] != "en"]
            report(f"{name} (not English)", foreign, judges)
            by_language(rows, judges)
        else:
            report(name, rows, judges)
            three_ways(rows)
    family_out(sets)
    speed(sets.get("A_gptfuzz", []) or next(iter(sets.values())))
    return 0


def by_language(rows: Sequence[Row], judges: dict[str, Judge]) -> None:
    """Print F1 for each language."""
    cells = []
    for language in sorted({row.fields["lang"] for row in rows}):
        mine = [row for row in rows if row.fields["lang"] == language]
        wanted = np.array([row.positive for row in mine], dtype=bool)
        cells.append(f"{language} {count(wanted, verdicts(judges['demur'], mine)).f1:.2f}")
    print(f"  by language, 50 rows each: {', '.join(cells)}")


def family_out(sets: dict[str, list[Row]]) -> None:
    """Print the XSTest sets once more, with both of them left out: their prompts are the same."""
    family = [name for name in sets if "xstest" in name]
    if not family:
        return
    model = train([*(rows for name, rows in sets.items() if name not in family), own_set()])
    for name in family:
        wanted = np.array([row.positive for row in sets[name]], dtype=bool)
        found = verdicts(ours(model), sets[name])
        print(f"{name}, trained on no XSTest row: F1 {f1_interval(wanted, found)}")


if __name__ == "__main__":
    sys.exit(main())
