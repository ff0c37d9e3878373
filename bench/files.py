"""Ordinary files as tool results or skills: how many a guard would withhold, folder by folder.

    python bench/files.py FOLDER... [--guard NAME] [--ending .md] [--every N] [--show-held]

`--guard` is tool_result, retrieval, skill, output, or learned: the model of documents alone.
Every text file of up to 200 KB counts once, however many copies there are. Each share stands with
Wilson's 95 % interval and the aim, then the rules that held files. `--show-held` prints each file
that is held, with the rule and the text it saw; `--every N` takes each N-th file. Nothing is run.

Files of packages on one machine are no sample of all files, and those that were read while the
rules were written flatter them: run it on folders of your own.
"""

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from guards import wilson

from demur.codes.vocabulary import Surface
from demur.guards import RetrievedPassage, Skill, ToolResult, check
from demur.model.finding import Action, Finding
from demur.scorers.contract import ScorerText, find_flagged
from demur.scorers.learned import load_learned_scorers

MAX_BYTES = 200_000
AIM = 0.001
HELD = (Action.BLOCK, Action.ESCALATE)
BINARY = b"\0"
SHOWN = 110

GUARDS: dict[str, Callable[[Path, str], list[Finding]]] = {
    "tool_result": lambda path, text: check("tool_result", ToolResult(text, tool=path.name)),
    "retrieval": lambda path, text: check("retrieval", RetrievedPassage(text, source=path.name)),
    "skill": lambda path, text: check("skill", Skill(files={path.name: text.encode()})),
    "output": lambda _, text: check("output", text),
    "learned": lambda _, text: list(score_document(text)),
}


def score_document(text: str) -> Iterator[Finding]:
    """Yield what the learned model of documents flags."""
    for scorer in load_learned_scorers():
        [found] = scorer.score([ScorerText(text, surface=Surface.TOOL_RESULT)])
        yield from find_flagged(scorer.name, found, scorer.meanings, Surface.TOOL_RESULT)


def text_files(folder: Path, ending: str, every: int) -> Iterator[tuple[Path, str]]:
    """Yield the text files of a folder, each content once."""
    seen: set[bytes] = set()
    paths = (path for path in sorted(folder.rglob(f"*{ending}")) if not path.is_symlink())
    for number, path in enumerate(paths):
        try:
            if number % every or not path.is_file() or path.stat().st_size > MAX_BYTES:
                continue
            data = path.read_bytes()
            name = hashlib.sha256(data).digest()
            if data and BINARY not in data[:4096] and name not in seen:
                seen.add(name)
                yield path, data.decode()
        except (OSError, UnicodeDecodeError):
            continue


def show(path: Path, text: str, finding: Finding) -> None:
    """Print one finding, with the text around it."""
    rule = finding.evidence.get("rule", "")
    excerpt = str(finding.evidence.get("excerpt", ""))
    if finding.span is not None:
        first = max(0, finding.span.start - SHOWN // 2)
        excerpt = " ".join(text[first : finding.span.end + SHOWN // 2].split())
    hidden = finding.evidence.get("hidden", "")
    print(f"  {path}: {finding.action} {rule} {hidden}: {excerpt[: 4 * SHOWN]}")


def measure(folder: Path, asked: argparse.Namespace) -> tuple[int, int]:
    """Print one line for a folder, and return how many of how many files are held."""
    total = held = warned = 0
    rules: Counter[str] = Counter()
    for path, text in text_files(folder, asked.ending, asked.every):
        findings = GUARDS[asked.guard](path, text)
        total += 1
        grave = [finding for finding in findings if finding.action in HELD]
        held += bool(grave)
        warned += bool(findings) and not grave
        rules.update({str(finding.evidence.get("rule", finding.code)) for finding in grave})
        if asked.show_held:
            for finding in grave:
                show(path, text, finding)
    if not total:
        print(f"{folder}: no text files")
        return 0, 0
    low, high = wilson(held, total)
    by_rule = ", ".join(f"{rule} {count}" for rule, count in rules.most_common())
    print(
        f"{folder}: {held} of {total} files held, {held / total:.3%} [{low:.3%}, {high:.3%}];"
        f" {warned} more recorded; {by_rule or 'no rule'}",
        flush=True,
    )
    return held, total


def main() -> None:
    """Measure each folder; fail if one that is large enough to tell is above the aim."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--guard", choices=GUARDS, default="tool_result")
    parser.add_argument("--ending", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--show-held", action="store_true")
    asked = parser.parse_args()
    counts = [measure(folder, asked) for folder in asked.folders]
    if any(total and wilson(held, total)[0] > AIM for held, total in counts):
        sys.exit(f"more than {AIM:.1%} of the files of a folder are held")


if __name__ == "__main__":
    main()
