"""Prepare the rows that the learned models are trained and measured on.

    .venv/bin/python tools/train_rows.py DATA OUT

DATA holds `requests.jsonl.xz` and `answers.jsonl.xz`. OUT gets `requests.jsonl` and
`answers.jsonl`: the rows of DATA, the training half of the contrast suite and the rows in
`models/rows`, each with its part: `train`, `choose` (whole sources for choosing, never trained
on), `measure` (sources that must not reach a model that is handed on), `check` (rows of our own
that are neither trained on nor chosen by), or `unlabelled`. The family of a harmful row is its
category, or the code by which the rules of the input guard find it.
"""

import json
import lzma
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from demur.evals import load_suite
from demur.guards import input as input_guard
from demur.guards.input import InputText

ROOT = Path(__file__).resolve().parent.parent
OWN_ROWS = ROOT / "models" / "rows"
# Whole sources that are kept for choosing.
CHOOSING = {
    "arena_hard",
    "catqa",
    "catqa_vi",
    "catqa_zh",
    "certified_safe",
    "coconot_pref",
    "easyjailbreak",
    "gptfuzz_q(tune)",
    "spikee",
    "spikee_fp",
    "spikee_standalone",
    "xstest_safe(DEV)",
    "xstest_unsafe(DEV)",
}
# Texts by third parties, or without a licence that allows a trained model.
MEASURING = {"gpts_system", "orbench_80k_subset", "xquad_q"}
# The families of harm: the categories and codes that one head scores.
FAMILIES: dict[str, list[str]] = json.loads((OWN_ROWS / "families.json").read_text("utf-8"))
_FAMILY_OF = {name: family for family, names in FAMILIES.items() for name in names}
Row = dict[str, Any]


def main(data: Path, out: Path) -> None:
    """Write the rows of requests and answers, and print how many each part has."""
    out.mkdir(parents=True, exist_ok=True)
    for name, rows in (("requests", request_rows(data)), ("answers", answer_rows(data))):
        counts: Counter[str] = Counter()
        with (out / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for row in rows:
                counts[row["part"]] += 1
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        print(name, dict(counts))


def request_rows(data: Path) -> Iterator[Row]:
    """Yield requests and documents with their part and, if harmful, their family."""
    for row in _read_packed(data / "requests.jsonl.xz"):
        family = _find_family(row["text"]) if row["harm"] == 1 else ""
        yield {**row, "part": _request_part(row), "family": family}
    for part, suite in (("train", "contrast_train"), ("check", "contrast_check")):
        yield from _suite_rows(suite, part)
    for row in _own_rows("requests"):
        yield {"family": "", **row}


def answer_rows(data: Path) -> Iterator[Row]:
    """Yield answers with their prompts; models trained without a source are measured by it."""
    for row in _read_packed(data / "answers.jsonl.xz"):
        yield {**row, "part": "train"}
    yield from _own_rows("answers")


def _own_rows(name: str) -> Iterator[Row]:
    for path in sorted(OWN_ROWS.glob(f"{name}*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                yield {"source": "own", "part": "train", **json.loads(line)}


def _read_packed(path: Path) -> Iterable[Row]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _request_part(row: Row) -> str:
    source = row["source"]
    if source in MEASURING:
        return "measure"
    if source in CHOOSING or (source.startswith("docs_") and row["group"] % 5 == 0):
        return "choose"
    return "unlabelled" if row["kind"] == "unlabelled" else "train"


def _suite_rows(suite: str, part: str) -> Iterator[Row]:
    for row in load_suite(suite).rows:
        harmful = row.label == "harmful"
        yield {
            "text": row.prompt,
            "language": row.language,
            "kind": "harm" if harmful else "hard_benign",
            "harm": int(harmful),
            # A wrapper around a harmless aim is no attack and no clean text either.
            "injection": -1 if row.domain == "wrapper" else 0,
            "planted": -1,
            "source": suite,
            "part": part,
            "family": _FAMILY_OF[row.category] if harmful else "",
        }


def _find_family(text: str) -> str:
    codes = [
        str(finding.code).removeprefix("CONTENT_").lower()
        for finding in input_guard.check(InputText(text))
    ]
    return next((_FAMILY_OF[code] for code in codes if code in _FAMILY_OF), "")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
