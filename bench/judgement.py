"""Requests and documents that nothing was tuned by: with rules alone, and with models.

    python bench/judgement.py [FOLDER]

FOLDER holds `train/requests.jsonl.xz`; of it, only the sources kept apart are read. With or
without it, our own suites are measured: `builtin` and `multilingual`, which nothing is trained
on, and `contrast_check`. Each row says how many requests are held (blocked or escalated) by rules,
how many with the learned models, and how many are held or warned of, with Wilson's 95 % interval
of the last. Nothing is pooled. Then it counts the crisis sentences that are found, and the harmless
twins that are taken for one; those `apart` were written when the rules were done. It ends with the
time for a prompt of 1 KB.
"""

import json
import lzma
import sys
import timeit
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import yaml
from guards import wilson

from demur.codes.reason_code import ReasonCode
from demur.evals import load_suite
from demur.gate import GuardPipeline, standard_pipeline
from demur.model.finding import Action

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from train_rows import CHOOSING, MEASURING

CRISIS = Path(__file__).parent.parent / "tests/unit/guards/crisis"
OF_CRISIS = {ReasonCode.CRISIS_ESCALATION, ReasonCode.CONTENT_SELF_HARM}
HELD = {Action.BLOCK, Action.ESCALATE}
SUITES = ("builtin", "contrast_check", "multilingual")
# Swearing is no attack.
NOT_COUNTED = "CONTENT_PROFANITY"
PROMPT = "Please help me write to my landlord about the heating, which broke last week. "


class Request(NamedTuple):
    """A labelled request or document, its set, and its surface."""

    source: str
    text: str
    surface: str = "input"


def read_suites() -> Iterator[Request]:
    """Yield the requests of our own suites, English apart from other languages."""
    for name in SUITES:
        for row in load_suite(name).rows:
            language = "en" if row.language == "en" else "other"
            yield Request(f"{name}, {language}, {row.label}", row.prompt)


def read_sources(path: Path) -> Iterator[Request]:
    """Yield the requests of the sources kept apart."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["source"] in CHOOSING | MEASURING:
                yield Request(f"{row['source']}, {row['kind']}", row["text"])
            elif row["kind"] == "document" and row["group"] % 5 == 0:
                yield Request(row["source"], row["text"], "tool_result")


def judge(pipeline: GuardPipeline, request: Request) -> int:
    """Return 2 if a text is held, 1 if it is warned of, else 0."""
    found = pipeline.run(request.surface, request.text)
    findings = [one for one in found if one.code != NOT_COUNTED]
    return 2 if any(one.action in HELD for one in findings) else int(bool(findings))


def count_crisis(pipeline: GuardPipeline, part: str) -> None:
    """Print how many crisis sentences are found, and how many twins are taken for one."""
    files = [yaml.safe_load(path.read_text("utf-8")) for path in sorted(CRISIS.glob("*.yaml"))]
    for kind in ("crisis", "twins"):
        rows = [row for file in files for row in file[part][kind]]
        found = 0
        for row in rows:
            findings = pipeline.run("input", row)
            found += any(one.code in OF_CRISIS and one.action in HELD for one in findings)
        low, high = wilson(found, len(rows))
        share = f"{found} of {len(rows)}: {found / len(rows):.1%}"
        print(f"crisis rows, {part}, {kind}: {share}, {low:.1%} to {high:.1%}")


def main(folder: Path | None) -> None:
    """Print one line for each set, and the time of both pipelines."""
    rules, learned = (standard_pipeline("input", "tool_result", learned=on) for on in (False, True))
    requests = list(read_suites())
    if folder is not None:
        requests += read_sources(folder / "train" / "requests.jsonl.xz")
    print(f"{'set':38} {'rows':>5} {'held':>6} {'+ models':>8} {'+ warned':>8}  95 %")
    for source in dict.fromkeys(request.source for request in requests):
        chosen = [request for request in requests if request.source == source]
        alone, joined = ([judge(line, one) for one in chosen] for line in (rules, learned))
        count, warned = len(chosen), sum(found > 0 for found in joined)
        low, high = wilson(warned, count)
        shares = (alone.count(2) / count, joined.count(2) / count, warned / count)
        figures = "{:6.1%} {:8.1%} {:8.1%}".format(*shares)
        print(f"{source:38} {count:5} {figures}  {low:.1%} to {high:.1%}", flush=True)
    for part in ("check", "apart"):
        count_crisis(learned, part)
    text = (PROMPT * 14)[:1024]
    for name, line in (("rules", rules), ("rules and models", learned)):
        times = timeit.repeat(partial(line.run, "input", text), number=20, repeat=15)
        print(f"1 KB with {name}: {min(times) / 20 * 1000:.3f} ms")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
