"""The command guard against a plain list of regexes: false alarms, recall, and time.

    python bench/commands.py FOLDER [--fuzz N] [--packages FOLDER...] [--show-held] [--quick]

FOLDER holds two labelled sets, one JSON object a line: `F_tldr_commands.jsonl` (everyday
commands: `text`) and `F_atomic_redteam.jsonl` (attack techniques: `text`, `platform`, `shell`,
`category`, the id of the technique). Rates come with Wilson's 95 % intervals, set by set.

Commands that people type are collected from the files of installed packages at run time (see
`command_sources.py`); their number depends on the machine. `--show-held` prints each ordinary
command that is held (blocked or escalated), with the rules; `--quick` leaves out techniques of
Windows and clouds, and times.

Everyday commands were used for tuning, so their rate flatters. Techniques are split in half by the
hash of their id. Rules were written from one half; the other half was not read, and is printed
separately.
"""

import argparse
import hashlib
import json
import re
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from command_sources import DEFAULT_FOLDERS, collect_commands

from demur.guards.code_execution.event import Command, CommandConfig, Language
from demur.guards.code_execution.guard import check

Row = dict[str, Any]
ActionOf = Callable[[str, Language], str]
CONFIG = CommandConfig()
LANGUAGES = {
    "sh": Language.SHELL,
    "bash": Language.SHELL,
    "powershell": Language.POWERSHELL,
    "command_prompt": Language.CMD,
}
HELD = ("block", "escalate")
MAX_HELD_SHARE = 0.01
MIN_ROWS = 100  # a smaller set says little about a share of one in a hundred
STRENGTH = ("block", "escalate", "warn", "")
# Patterns that deny lists usually hold.
REGEXES = re.compile(
    r"rm\s+-[a-z]*r|mkfs|dd\s+if=|>\s*/dev/sd|:\(\)\s*\{|chmod\s+(-R\s+)?777|curl[^|]*\|\s*(ba)?sh"
    r"|wget[^|]*\|\s*(ba)?sh|/etc/passwd|/etc/shadow|nc\s+-e|/dev/tcp|base64\s+-d|eval\s|sudo\s|shutdown"
    r"|reboot|kill\s+-9|iptables\s+-F|history\s+-c|crontab|Invoke-Expression|IEX|DownloadString"
    r"|-enc\s|mimikatz|reg\s+add|schtasks|net\s+user|vssadmin|Remove-Item|Set-MpPreference"
)


def strongest_action(text: str, language: Language) -> str:
    """Return the strongest action of the guard's findings."""
    actions = {
        finding.action.value for finding in check(Command(text=text, language=language), CONFIG)
    }
    return next(strength for strength in STRENGTH if strength in actions or not strength)


def regex_action(text: str, _: Language) -> str:
    """Return the action of the list of regexes."""
    return "block" if REGEXES.search(text) else ""


def wilson_interval(hits: int, total: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a rate."""
    if not total:
        return 0.0, 1.0
    z, format_rate = 1.96, hits / total
    middle = format_rate + z * z / (2 * total)
    half = z * ((format_rate * (1 - format_rate) + z * z / (4 * total)) / total) ** 0.5
    scale = 1 + z * z / total
    return (middle - half) / scale, (middle + half) / scale


def format_rate(hits: int, total: int) -> str:
    """Return a rate with its interval, in per cent."""
    low, high = wilson_interval(hits, total)
    return f"{100 * hits / max(total, 1):5.1f} [{100 * low:4.1f}, {100 * high:4.1f}]"


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def is_development_half(technique: str) -> bool:
    """Whether rules may have been written from this technique."""
    return hashlib.sha256(technique.partition(".")[0].encode()).digest()[0] % 2 == 0


def row_group(row: Row) -> str:
    """Return the group that a row counts in."""
    if row["platform"] == "windows":
        return f"windows, {row['shell'].replace('command_prompt', 'cmd')}"
    return str(row["platform"].partition("/")[0].partition(":")[0])


def format_rates(found: Counter[str]) -> str:
    """Return the rates of block, of block or escalate, and of any finding."""
    total = sum(found.values())
    counts = (found["block"], found["block"] + found["escalate"], total - found[""])
    return "  ".join([f"{total:>6}", *(format_rate(count, total) for count in counts)])


def print_false_alarms(benign: list[Row]) -> None:
    """Print how often the guard stops everyday commands."""
    print("\neveryday commands, per cent [95 %]")
    print(f"{'':34}{'rows':>6}  {'block':17}  {'block or escalate':17}  {'any note':17}")
    kinds: list[tuple[str, ActionOf, Language]] = [
        ("guard, as shell", strongest_action, Language.SHELL),
        ("guard, language detected", strongest_action, Language.AUTO),
        ("plain regexes", regex_action, Language.SHELL),
    ]
    for name, action_of, language in kinds:
        found = Counter(action_of(row["text"], language) for row in benign)
        print(f"{name:34}{format_rates(found)}")


def print_ordinary(sets: dict[str, list[str]], *, show_held: bool) -> bool:
    """Print how many ordinary commands are held or warned of; return whether few are held."""
    few = True
    print("\nordinary commands, per cent [95 %]")
    print(f"{'':34}{'rows':>6}  {'held':17}  {'warned only':17}")
    held_rows: list[tuple[str, str, str]] = []
    for name, texts in sets.items():
        found: Counter[str] = Counter()
        for text in texts:
            action = strongest_action(text, Language.SHELL)
            found[action] += 1
            if action in HELD:
                held_rows.append((name, text, ", ".join(held_rules(text))))
        held, total = sum(found[action] for action in HELD), sum(found.values())
        rates = f"{format_rate(held, total)}  {format_rate(found['warn'], total)}"
        print(f"{name:34}{total:>6}  {rates}")
        few = few and (total < MIN_ROWS or held <= MAX_HELD_SHARE * total)
    for name, text, rules in held_rows if show_held else ():
        print(f"{name}: {rules}: {text!r}")
    return few


def held_rules(text: str) -> list[str]:
    """Return the rules by which a command is held, with their targets."""
    findings = check(Command(text=text, language=Language.SHELL), CONFIG)
    held = (finding.evidence for finding in findings if finding.action.value in HELD)
    return [f"{evidence['rule']} {evidence.get('target', '')}".strip() for evidence in held]


def print_unix_attacks(attacks: list[Row]) -> None:
    """Print how often the guard holds attack techniques for the shells of Linux and macOS."""
    rows = [row for row in attacks if is_unix_row(row)]
    found = Counter(strongest_action(row["text"], Language.SHELL) for row in rows)
    print("\nattack techniques for Linux and macOS, per cent [95 %]")
    print(f"{'':34}{'rows':>6}  {'block':17}  {'block or escalate':17}  {'any note':17}")
    print(f"{'Linux and macOS, as shell':34}{format_rates(found)}")


def is_unix_row(row: Row) -> bool:
    """Whether a technique is a shell command for Linux or macOS."""
    unix = {"linux", "macos"} & set(row["platform"].split("/"))
    return bool(unix) and LANGUAGES[row["shell"]] is Language.SHELL


def print_recall(attacks: list[Row]) -> None:
    """Print the recall of attacks by half and platform, and the weakest techniques."""
    print("\nattack techniques, per cent [95 %]")
    print(f"{'':34}{'rows':>6}  {'block':17}  {'block or escalate':17}  {'any note':17}")
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    techniques: dict[str, Counter[str]] = defaultdict(Counter)
    for row in attacks:
        language = LANGUAGES[row["shell"]]
        found = strongest_action(row["text"], language)
        half = "development" if is_development_half(row["category"]) else "held out"
        groups[half][found] += 1
        groups[f"{half}: {row_group(row)}"][found] += 1
        groups[f"{half}: plain regexes"][regex_action(row["text"], language)] += 1
        techniques[row["category"].partition(".")[0]][found] += 1
    for name in sorted(groups):
        print(f"{name:34}{format_rates(groups[name])}")
    print_techniques(techniques)


def print_techniques(techniques: dict[str, Counter[str]]) -> None:
    """Print how many techniques are stopped in none, some or most of their rows."""
    stopped = {
        name: (found["block"] + found["escalate"]) / sum(found.values())
        for name, found in techniques.items()
    }
    print(f"\n{len(stopped)} techniques by the share of their rows that is blocked or escalated")
    for name, low, high in (("none", 0, 0), ("up to half", 0.001, 0.499), ("half or more", 0.5, 1)):
        within = [share for share in stopped.values() if low <= share <= high]
        print(f"  {name:14}{len(within):>4}")


def measure_times(texts: list[str], language: Language) -> Iterator[float]:
    """Yield the microseconds that each text takes."""
    for text in texts:
        start = time.perf_counter()
        list(check(Command(text=text, language=language), CONFIG))
        yield (time.perf_counter() - start) * 1e6


def print_speed(benign: list[Row], attacks: list[Row]) -> None:
    """Print the time of one check."""
    print(f"\n{'microseconds a command':34}{'p50':>8}{'p90':>8}{'p99':>8}")
    everyday = [row["text"] for row in benign]
    scripts = [row["text"] for row in attacks if LANGUAGES[row["shell"]] is Language.SHELL]
    for name, texts, language in (
        ("everyday, as shell", everyday, Language.SHELL),
        ("everyday, language detected", everyday, Language.AUTO),
        ("attack scripts, as shell", scripts, Language.SHELL),
    ):
        list(measure_times(texts, language))
        cuts = statistics.quantiles(measure_times(texts, language), n=100)
        print(f"{name:34}{cuts[49]:>8.0f}{cuts[89]:>8.0f}{cuts[98]:>8.0f}")


def run_splices(texts: list[str], count: int) -> None:
    """Check `count` texts spliced from known ones; nothing may be raised."""
    slowest = 0.0
    state = 1
    for _ in range(count):
        parts = []
        for _ in range(3):
            state = state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407 & 2**64 - 1
            text = texts[(state >> 33) % len(texts)]
            cut = (state >> 20) % (len(text) + 1)
            parts.append(text[cut:] if state & 1 else text[:cut])
        language = list(Language)[(state >> 40) % len(Language)]
        slowest = max(slowest, next(measure_times(["".join(parts)], language)))
    print(f"\n{count:,} spliced texts: nothing raised, slowest {slowest / 1000:.0f} ms")


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--fuzz", type=int, default=0)
    parser.add_argument("--packages", type=Path, nargs="*", default=DEFAULT_FOLDERS)
    parser.add_argument("--show-held", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    has_folder = options.folder is not None
    benign, attacks = [], []
    if has_folder and (options.folder / "F_tldr_commands.jsonl").is_file():
        benign = read_rows(options.folder / "F_tldr_commands.jsonl")
        attacks = read_rows(options.folder / "F_atomic_redteam.jsonl")
    else:
        print("commands: there is no folder of labelled sets (F_*.jsonl), so only packages count")
    collected = collect_commands(options.packages)
    sets = {name: [text for text, _ in rows] for name, rows in collected.items()}
    documented = {"tldr pages": [row["text"] for row in benign]} if benign else {}
    few_held = print_ordinary(documented | sets, show_held=options.show_held)
    if attacks:
        print_unix_attacks(attacks)
    if attacks and not options.quick:
        print_false_alarms(benign)
        print_recall(attacks)
        print_speed(benign, attacks)
    if attacks and options.fuzz:
        run_splices([row["text"] for row in [*benign, *attacks]], options.fuzz)
    if not few_held:
        sys.exit(f"commands: a set of ordinary commands has more than {MAX_HELD_SHARE:.0%} held")


if __name__ == "__main__":
    main()
