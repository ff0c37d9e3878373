"""The guard of commands: wrong alarms, recall, and time, beside a plain list of regexes.

    python bench/commands.py FOLDER [--fuzz N]

FOLDER holds two labelled sets, one JSON object a line: `F_tldr_commands.jsonl` (everyday
commands: `text`) and `F_atomic_redteam.jsonl` (attack techniques: `text`, `platform`, `shell`,
`category`, the id of the technique). Rates come with Wilson's 95 % intervals, set by set.

The everyday commands were used for tuning, so their rate flatters. Of the techniques, half were
drawn by the hash of their id, and no row of the other half was read while rules were written; the
halves stand apart.
"""

import argparse
import hashlib
import json
import re
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from demur.guards.code_execution import Command, CommandConfig, Language
from demur.guards.code_execution.guard import check

Row = dict[str, Any]
Judge = Callable[[str, Language], str]
CONFIG = CommandConfig()
LANGUAGES = {
    "sh": Language.SHELL,
    "bash": Language.SHELL,
    "powershell": Language.POWERSHELL,
    "command_prompt": Language.CMD,
}
STRENGTH = ("block", "escalate", "warn", "")
# What a list of forbidden patterns usually holds.
PLAIN = re.compile(
    r"rm\s+-[a-z]*r|mkfs|dd\s+if=|>\s*/dev/sd|:\(\)\s*\{|chmod\s+(-R\s+)?777|curl[^|]*\|\s*(ba)?sh"
    r"|wget[^|]*\|\s*(ba)?sh|/etc/passwd|/etc/shadow|nc\s+-e|/dev/tcp|base64\s+-d|eval\s|sudo\s|shutdown"
    r"|reboot|kill\s+-9|iptables\s+-F|history\s+-c|crontab|Invoke-Expression|IEX|DownloadString"
    r"|-enc\s|mimikatz|reg\s+add|schtasks|net\s+user|vssadmin|Remove-Item|Set-MpPreference"
)


def strongest(text: str, language: Language) -> str:
    """Return the strongest thing that the guard asks for."""
    actions = {
        finding.action.value for finding in check(Command(text=text, language=language), CONFIG)
    }
    return next(strength for strength in STRENGTH if strength in actions or not strength)


def plain(text: str, _: Language) -> str:
    """Return what the list of regexes asks for."""
    return "block" if PLAIN.search(text) else ""


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a rate."""
    if not total:
        return 0.0, 1.0
    z, rate = 1.96, hits / total
    middle = rate + z * z / (2 * total)
    half = z * ((rate * (1 - rate) + z * z / (4 * total)) / total) ** 0.5
    scale = 1 + z * z / total
    return (middle - half) / scale, (middle + half) / scale


def rate(hits: int, total: int) -> str:
    """Return a rate with its interval, in per cent."""
    low, high = wilson(hits, total)
    return f"{100 * hits / max(total, 1):5.1f} [{100 * low:4.1f}, {100 * high:4.1f}]"


def rows(path: Path) -> list[Row]:
    """Return the rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def looked_at(technique: str) -> bool:
    """Whether rules may have been written with this technique in view."""
    return hashlib.sha256(technique.partition(".")[0].encode()).digest()[0] % 2 == 0


def platform(row: Row) -> str:
    """Return the group in which a row is counted."""
    if row["platform"] == "windows":
        return f"windows, {row['shell'].replace('command_prompt', 'cmd')}"
    return str(row["platform"].partition("/")[0].partition(":")[0])


def counted(found: Counter[str]) -> str:
    """Return block, block or escalate, and anything at all, as rates."""
    total = sum(found.values())
    block, asked = found["block"], found["block"] + found["escalate"]
    return (
        f"{total:>6}  {rate(block, total)}  {rate(asked, total)}  {rate(total - found[''], total)}"
    )


def wrong_alarms(benign: list[Row]) -> None:
    """Print how often everyday commands are stopped."""
    print("\neveryday commands, per cent [95 %]")
    print(f"{'':34}{'rows':>6}  {'block':17}  {'block or escalate':17}  {'any note':17}")
    kinds: list[tuple[str, Judge, Language]] = [
        ("guard, as shell", strongest, Language.SHELL),
        ("guard, language told from text", strongest, Language.AUTO),
        ("plain regexes", plain, Language.SHELL),
    ]
    for name, judge, language in kinds:
        found = Counter(judge(row["text"], language) for row in benign)
        print(f"{name:34}{counted(found)}")


def recall(attacks: list[Row]) -> None:
    """Print what is seen of attacks: by half and platform, and the least seen techniques."""
    print("\nattack techniques, per cent [95 %]")
    print(f"{'':34}{'rows':>6}  {'block':17}  {'block or escalate':17}  {'any note':17}")
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    techniques: dict[str, Counter[str]] = defaultdict(Counter)
    for row in attacks:
        language = LANGUAGES[row["shell"]]
        found = strongest(row["text"], language)
        half = "looked at" if looked_at(row["category"]) else "not looked at"
        groups[half][found] += 1
        groups[f"{half}: {platform(row)}"][found] += 1
        groups[f"{half}: plain regexes"][plain(row["text"], language)] += 1
        techniques[row["category"].partition(".")[0]][found] += 1
    for name in sorted(groups):
        print(f"{name:34}{counted(groups[name])}")
    by_technique(techniques)


def by_technique(techniques: dict[str, Counter[str]]) -> None:
    """Print how techniques spread over what is asked for."""
    asked = {
        name: (found["block"] + found["escalate"]) / sum(found.values())
        for name, found in techniques.items()
    }
    print(f"\n{len(asked)} techniques by the share of their rows that is blocked or escalated")
    for name, low, high in (("none", 0, 0), ("up to half", 0.001, 0.499), ("half or more", 0.5, 1)):
        within = [share for share in asked.values() if low <= share <= high]
        print(f"  {name:14}{len(within):>4}")


def times(texts: list[str], language: Language) -> Iterator[float]:
    """Yield the microseconds that each text takes."""
    for text in texts:
        start = time.perf_counter()
        list(check(Command(text=text, language=language), CONFIG))
        yield (time.perf_counter() - start) * 1e6


def speed(benign: list[Row], attacks: list[Row]) -> None:
    """Print what one check takes."""
    print(f"\n{'microseconds a command':34}{'p50':>8}{'p90':>8}{'p99':>8}")
    everyday = [row["text"] for row in benign]
    scripts = [row["text"] for row in attacks if LANGUAGES[row["shell"]] is Language.SHELL]
    for name, texts, language in (
        ("everyday, as shell", everyday, Language.SHELL),
        ("everyday, language told", everyday, Language.AUTO),
        ("attack scripts, as shell", scripts, Language.SHELL),
    ):
        list(times(texts, language))
        cuts = statistics.quantiles(times(texts, language), n=100)
        print(f"{name:34}{cuts[49]:>8.0f}{cuts[89]:>8.0f}{cuts[98]:>8.0f}")


def fuzz(texts: list[str], count: int) -> None:
    """Cut known texts up and put them together anew, `count` times; nothing may be raised."""
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
        slowest = max(slowest, next(times(["".join(parts)], language)))
    print(f"\n{count:,} spliced texts: nothing raised, slowest {slowest / 1000:.0f} ms")


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--fuzz", type=int, default=0)
    given = parser.parse_args()
    if given.folder is None or not (given.folder / "F_tldr_commands.jsonl").is_file():
        print("commands: there is no folder of labelled sets (F_*.jsonl), so nothing is measured")
        return
    benign = rows(given.folder / "F_tldr_commands.jsonl")
    attacks = rows(given.folder / "F_atomic_redteam.jsonl")
    wrong_alarms(benign)
    recall(attacks)
    speed(benign, attacks)
    if given.fuzz:
        fuzz([row["text"] for row in [*benign, *attacks]], given.fuzz)


if __name__ == "__main__":
    main()
