"""Guarding answers: what a stream costs, how time grows, and what is found in labelled sets.

The sets are read from the folder given by `--data`; without one, only speed is measured. Of their
answers, it is also counted how many characters a stream holds back. A
row without an answer counts as if its text were one: so harmless requests must pass as well.
Beside our rules run the three patterns that people start with. Each set is reported by
itself, with its 95 % interval; a set that rules were tuned on says little about others.
"""

import argparse
import json
import math
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from demur.guards.output import OutputText, check
from demur.guards.output_stream import (
    OnBlock,
    OutputStreamFilter,
    StreamConfig,
    guard_stream,
)
from demur.model.finding import Action

AIM_SECONDS = 50e-6
TOKENS = 8
LENGTHS = (2_000, 20_000, 200_000, 2_000_000, 10_000_000)
PLAIN = tuple(
    re.compile(pattern)
    for pattern in (
        r"(step.by.step|instructions|how.to).*(hack|stalk|harm)",
        r"(password|account|credential).*(recovery|reset|bypass)",
        r"here.?s.*(your|the).*(task|plan).*(stalk|track|monitor)",
    )
)
SENTENCES = (
    "The first release came out in spring, and most people moved to it within a month. ",
    "If the build fails, look at the log: it names the file and the line. ",
    "A password manager keeps one key for each site, so a leak at one does not hurt the others. ",
    "In 1905 the bridge carried 4,200 carts a day; by 1930 it carried none. ",
    "Set `timeout = 30` in `settings.toml` and start the service again.\n\n",
    "You can plant beans in May, when the nights are warm enough. ",
)


def main() -> int:
    """Print the figures; the status says whether the aim for streams was met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder of labelled sets as JSON lines")
    parser.add_argument("--chunks", type=int, default=5_000)
    options = parser.parse_args()
    met = stream_cost(options.chunks)
    growth()
    if options.data:
        holding(options.data)
        quality(options.data)
    return 0 if met else 1


def prose(size: int) -> str:
    """Return an answer of about that many characters, no stretch of it like the last."""
    parts: list[str] = []
    length = 0
    while length < size:
        number = len(parts)
        parts.append(f"{number}. {SENTENCES[number * number % len(SENTENCES)]}")
        length += len(parts[-1])
    return "".join(parts)[:size]


def stream_cost(count: int) -> bool:
    """Print what guarding adds to each chunk of a stream."""
    tokens = re.findall(r"\s?\w+|\W", prose(count * TOKENS * 6))
    chunks = ["".join(tokens[at : at + TOKENS]) for at in range(0, len(tokens), TOKENS)][:count]
    "".join(guard_stream(chunks[:200]))
    taken: list[float] = []
    given = time.perf_counter()

    def source() -> Iterable[str]:
        nonlocal given
        for chunk in chunks:
            now = time.perf_counter()
            taken.append(now - given)
            given = now
            yield chunk

    config = StreamConfig(on_block=OnBlock.RECORD)
    given = time.perf_counter()
    for _ in guard_stream(source(), config):
        pass
    cost = sorted(taken[1:])
    p50, p99 = cost[len(cost) // 2], cost[len(cost) * 99 // 100]
    print(f"stream, {TOKENS}-token chunks of {statistics.fmean(map(len, chunks)):.0f} characters:")
    print(f"  p50 {p50 * 1e6:.1f} µs, mean {statistics.fmean(cost) * 1e6:.1f} µs,", end=" ")
    print(f"p99 {p99 * 1e6:.0f} µs a chunk (aim: p50 <= {AIM_SECONDS * 1e6:.0f} µs)")
    # Small chunks are put together, so most of them cost nothing and a few cost it all.
    looks = [each for each in cost if each > 5 * cost[len(cost) // 4]]
    print(f"  the {len(looks) / len(cost):.0%} at which text is looked at:", end=" ")
    print(f"p50 {statistics.median(looks) * 1e6:.1f} µs")
    return p50 <= AIM_SECONDS


def growth() -> None:
    """Print the time for one answer as it grows; by character it should stay the same."""
    for size in LENGTHS:
        text = prose(size)
        rounds = max(1, 200_000 // size)
        best = min(_seconds(partial(_blocked, text)) for _ in range(rounds))
        print(f"whole answer of {size:>10,} characters: {best * 1e3:9.2f} ms,", end=" ")
        print(f"{best / size * 1e9:.0f} ns a character")


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def holding(folder: Path) -> None:
    """Print how many characters of the answers in each set are held back, token by token.

    The first number is how many characters a model writes before the first of them is shown.
    An answer that ends before comes whole.
    """
    print(f"{'answers that are not stopped':36}{'first shown, p50 p90':>22}{'held, p50 p90':>16}")
    for path in sorted(folder.glob("*.jsonl")):
        rows = map(json.loads, filter(None, path.read_text(encoding="utf-8").split("\n")))
        answers = [answer for row in rows if (answer := row.get("response"))]
        first: list[int] = []
        held: list[int] = []
        for answer in answers:
            shown, held_now = _held(answer)
            first += shown
            held += held_now
        if answers:
            figures = [*_percentiles(first), *_percentiles(held)]
            print(f"{f'{path.stem} ({len(answers)})':36}", end="")
            print("{:>16} {:>5}{:>10} {:>5}".format(*figures))


def _held(answer: str) -> tuple[list[int], list[int]]:
    """Return when the first text is shown, if it is, and what is held after each token."""
    stream = OutputStreamFilter(StreamConfig(on_block=OnBlock.END), None)
    written = shown = 0
    first: list[int] = []
    held: list[int] = []
    for token in re.findall(r"\s?\w+|\W", answer):
        written += len(token)
        shown += sum(map(len, stream.feed(token)))
        if stream.is_stopped:
            return [], []
        if shown and not first:
            first.append(written)
        held.append(written - shown)
    return first, held


def _percentiles(figures: list[int]) -> tuple[int, int]:
    ordered = sorted(figures) or [0]
    return ordered[len(ordered) // 2], ordered[len(ordered) * 9 // 10]


def quality(folder: Path) -> None:
    """Print what is blocked in each set, by our rules and by the plain patterns."""
    print(f"{'set':52}{'demur':>26}{'plain patterns':>26}")
    for path in sorted(folder.glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        groups: dict[str, list[str]] = {}
        for row in rows:
            text = row.get("response") or row.get("text") or row.get("prompt") or ""
            groups.setdefault(_group(row), []).append(text)
        for name, texts in sorted(groups.items()):
            ours = sum(map(_blocked, texts))
            plain = sum(any(each.search(text.lower()) for each in PLAIN) for text in texts)
            size = len(texts)
            print(f"{f'{path.stem} {name}':52}{_share(ours, size):>26}{_share(plain, size):>26}")


def _group(row: dict[str, Any]) -> str:
    """Return under what a row is counted: its label, and apart what contrasts with harmless."""
    contrast = " unsafe" if str(row.get("category", "")).startswith("contrast") else ""
    return f"{row.get('label')}{contrast}"


def _blocked(text: str) -> bool:
    # All findings are asked for, also where the first says enough: it is timed, too.
    return sum(finding.action is not Action.WARN for finding in check(OutputText(text))) > 0


def _share(hits: int, size: int, z: float = 1.96) -> str:
    """Return a share with its 95 % interval by Wilson."""
    share = hits / size
    middle = share + z * z / (2 * size)
    spread = z * math.sqrt(share * (1 - share) / size + z * z / (4 * size * size))
    scale = 1 + z * z / size
    low, high = max(0.0, middle - spread) / scale, (middle + spread) / scale
    return f"{share:.1%} [{low:.1%}, {high:.1%}] /{size}"


if __name__ == "__main__":
    sys.exit(main())
