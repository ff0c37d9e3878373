"""Triage compared with ripgrep, in one interleaved run: CPU seconds of whole processes.

Both look for the same things in the same made-up logs: canonical lines and every legacy
phrase of the registry. ripgrep prints matches; triage gives exact counts for each code,
which are held against what the generator wrote. The modules are compiled beforehand, as
they are wherever demur was installed. `--big` takes logs of 512 MB.
"""

import argparse
import collections
import gzip
import os
import random  # noqa: TID251 - a bench makes its input up, from a fixed seed
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from table import Table

from demur.codes.loading import default_registry
from demur.triage.counts import CANONICAL, LEGACY, TriageOptions
from demur.triage.scan import scan_range

ROUNDS = 5
COPIES = 4
WORDS = [
    "request",
    "user",
    "session",
    "token",
    "cache",
    "index",
    "shard",
    "retry",
    "batch",
    "node",
    "worker",
    "queue",
    "latency",
    "handler",
    "commit",
    "flush",
    "replica",
    "stream",
    "packet",
    "socket",
    "buffer",
    "timeout",
    "upstream",
    "gateway",
]
CHILD = """
import sys
from demur.triage import TriageOptions, triage_logs
triage_logs([sys.argv[1]], TriageOptions(), jobs=int(sys.argv[2]))
# Not what `getrusage` says, which keeps the memory of whoever started the process.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


class Log(NamedTuple):
    """A made-up log and how many refusals of each code and kind it holds."""

    path: Path
    truth: collections.Counter[tuple[str, str]]


class Ran(NamedTuple):
    """What a process took, and what it printed."""

    cpu: float
    wall: float
    out: str


def blocks(lines: Callable[[int], tuple[str, tuple[str, str] | None]], size: int) -> Iterator[Any]:
    """Yield blocks of lines, each in another order, until there are `size` bytes."""
    rng = random.Random(1)  # noqa: S311 - made-up text
    made = [lines(index) for index in range(200_000)]
    held = collections.Counter(about for _, about in made if about is not None)
    texts = [text for text, _ in made]
    done = 0
    while done < size:
        rng.shuffle(texts)
        block = ("\n".join(texts) + "\n").encode()
        done += len(block)
        yield block, held


def mixed(rng: random.Random) -> Callable[[int], tuple[str, tuple[str, str] | None]]:
    """Return lines of which 1 % are canonical and 0.5 % legacy."""
    registry = default_registry()
    codes = [str(entry.code) for entry in registry][:24]
    phrases = sorted(registry.phrases.items())

    def line(index: int) -> tuple[str, tuple[str, str] | None]:
        stamp = f"2026-11-{1 + index % 28:02}T{index % 24:02}:{index % 60:02}:00.{index % 1000:03}Z"
        body = " ".join(rng.choices(WORDS, k=12))
        kind = rng.random()
        if kind < 0.01:
            code = rng.choice(codes)
            return f"{stamp} WARN guard[{index % 9}]: REFUSED: {code}: {body}", (code, CANONICAL)
        if kind < 0.015:
            phrase, _ = rng.choice(phrases)
            meant = registry.code_of_phrase(phrase)
            assert meant is not None
            said = phrase.upper() if rng.random() < 0.3 else phrase
            return f"{stamp} INFO app: {said} {body}", (meant, LEGACY)
        return f"{stamp} INFO svc.{rng.choice(WORDS)}: {body} id={index}", None

    return line


def dense(rng: random.Random) -> Callable[[int], tuple[str, tuple[str, str] | None]]:
    """Return lines that are all refusals."""
    codes = [str(entry.code) for entry in default_registry()][:24]

    def line(index: int) -> tuple[str, tuple[str, str] | None]:
        code = rng.choice(codes)
        body = " ".join(rng.choices(WORDS, k=7))
        text = f"2026-11-15T12:00:00.{index % 1000:03}Z WARN guard[3]: REFUSED: {code}: {body}"
        return text, (code, CANONICAL)

    return line


def write(path: Path, lines: Any, size: int) -> Log:
    """Write a log."""
    truth: collections.Counter[tuple[str, str]] = collections.Counter()
    with path.open("wb") as file:
        for block, held in blocks(lines, size):
            file.write(block)
            truth.update(held)
    return Log(path, truth)


def compile_modules(folder: Path) -> None:
    """Let every process from now on find its modules compiled in a folder."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    log = folder / "small.log"
    log.write_bytes(b"REFUSED: RCE_RISK: x\n")
    ours(log)


def run(*words: str, cores: int = 1) -> Ran:
    """Return what a process takes, on so many cores."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    pinned = ["taskset", "-c", ",".join(map(str, allowed)), *words]
    ran = subprocess.run(pinned, capture_output=True, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ran(cpu, wall, ran.stdout.decode(errors="replace") if len(ran.stdout) < 1000 else "")


def ours(path: Path, jobs: int = 1) -> Ran:
    """Return what triage takes."""
    return run(sys.executable, "-c", CHILD, str(path), str(jobs), cores=jobs)


def ripgrep(path: Path, patterns: Path) -> Ran:
    """Return what ripgrep takes."""
    return run("rg", "--no-config", "-a", "-o", "-N", "-I", "-f", str(patterns), str(path))


def patterns_file(folder: Path) -> Path:
    """Write the alternation that says what triage looks for, for ripgrep."""
    phrases = "|".join(map(re.escape, sorted(default_registry().phrases)))
    path = folder / "patterns"
    path.write_text(f"REFUSED: [A-Z_0-9]+|(?i:{phrases})".replace(r"\ ", " ").replace(r"\'", "'"))
    return path


def check(log: Log) -> None:
    """Hold exact counts against what was written."""
    counts = scan_range(log.path, 0, log.path.stat().st_size, TriageOptions())
    found = {(key.code, key.kind): number for key, number in counts.rows.items()}
    if found != dict(log.truth):
        sys.exit(f"{log.path.name}: the counts are wrong")
    print(f"{log.path.name}: {len(found)} numbers by code and kind are exactly what was written")


def compare(table: Table, path: Path, name: str, patterns: Path, aim: float) -> None:
    """Print how both do on a log or a folder of logs, in turns."""
    pairs = [(ours(path), ripgrep(path, patterns)) for _ in range(ROUNDS)]
    mine = statistics.median(own.cpu for own, _ in pairs)
    theirs = statistics.median(other.cpu for _, other in pairs)
    files = path.iterdir() if path.is_dir() else (path,)
    size = sum(file.stat().st_size for file in files) / 1e6
    table.row(
        f"{name}: MB a CPU second, whole process",
        f"{size / mine:.0f}",
        f"{size / theirs:.0f}",
        ratio=theirs / mine,
        at_least=aim,
    )


def scale(table: Table, log: Log, patterns: Path) -> None:
    """Print how both do, and what a second core adds, on files so large that starting is cheap."""
    many = log.path.parent / "many"
    many.mkdir()
    for number in range(COPIES):
        (many / f"{number}.log").hardlink_to(log.path)
    compare(table, many, f"{COPIES} times {log.path.name}", patterns, 3)
    if len(os.sched_getaffinity(0)) < 2:
        print("only one core: nothing to say about two")
        return
    pairs = [(ours(many, 1), ours(many, 2)) for _ in range(ROUNDS)]
    one, two = min(one.wall for one, _ in pairs), min(two.wall for _, two in pairs)
    size = COPIES * log.path.stat().st_size / 1e9
    table.row(
        f"two processes, {size:.1f} GB: wall seconds, against one",
        f"{two:.2f}",
        f"{one:.2f}",
        ratio=one / two,
        at_least=1.7,
    )
    cpu = [statistics.median(ran.cpu for ran in runs) for runs in zip(*pairs, strict=True)]
    table.row(
        "the same: CPU seconds, against one",
        f"{cpu[1]:.2f}",
        f"{cpu[0]:.2f}",
        ratio=cpu[1] / cpu[0],
    )
    most = max(int(ran.out) for pair in pairs for ran in pair) / 1000
    table.row("memory at most, MB", f"{most:.0f}", ratio=most, at_most=100)


def packed(table: Table, log: Log, folder: Path) -> None:
    """Print what a gzip file takes compared with unpacking it alone."""
    path = folder / "mixed.log.gz"
    with log.path.open("rb") as file, gzip.open(path, "wb", compresslevel=5) as out:
        out.write(file.read(64 << 20))
    pairs = [(ours(path), run("gzip", "-dc", str(path))) for _ in range(3)]
    mine = statistics.median(own.cpu for own, _ in pairs)
    theirs = statistics.median(other.cpu for _, other in pairs)
    table.row(
        "64 MB in gzip: CPU seconds, against gzip -dc",
        f"{mine:.2f}",
        f"{theirs:.2f}",
        ratio=mine / theirs,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--big", action="store_true", help="logs of 512 MB")
    size = (512 if parser.parse_args().big else 256) * 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = [
            write(folder / "mixed.log", mixed(random.Random(1)), size),  # noqa: S311 - made-up text
            write(folder / "dense.log", dense(random.Random(2)), size // 2),  # noqa: S311 - made-up text
        ]
        for log in logs:
            check(log)
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        table = Table("triage", "demur", "ripgrep")
        if shutil.which("rg") is None or shutil.which("taskset") is None:
            print("`rg` or `taskset` is not installed: nothing to compare with")
        else:
            compile_modules(folder)
            patterns = patterns_file(folder)
            for log, aim in zip(logs, (3, 1.5), strict=True):
                compare(table, log.path, log.path.name, patterns, aim)
            scale(table, logs[0], patterns)
            packed(table, logs[0], folder)
    if table.missed:
        print(f"{table.missed} aims missed")


if __name__ == "__main__":
    main()
