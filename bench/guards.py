"""The guards of text: wrong holds, recall, and time, beside a plain list of regexes.

    python bench/guards.py [FOLDER] [--fuzz N]
    python bench/guards.py FOLDER --rules [--language en]

FOLDER holds labelled sets, one JSON object a line (`prompt`, `label`, `category`): `B_*` (safe
requests that sound unsafe, and unsafe twins), `C_*` (harmful requests), `D_*` (jailbreaks and
injections, and harmless texts like them), `E_*` (harmless requests). A set that is not there is
named and left out. Each rate stands with Wilson's 95 % interval, set by set, never pooled, at
three levels of strictness: what is blocked; what is blocked or escalated; and what is
recorded too. Both lists judge each row in turn.

The sets in `UNREAD` were never looked at while rules were written, neither their rows nor a
sample of them; how often each rule hit them in all was. The others were read, so their recall says
how much the rules can hold, and the recall on the unread ones how far they reach.

`--rules` counts for each input rule how often it hit a harmful and a harmless row, over these
sets and over `train/requests.jsonl.xz` in one language. Rules are mended by the development
sources; the sources in `APART` are counted beside them and never read.
"""

import argparse
import json
import lzma
import multiprocessing
import re
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from demur.guards import input as inputs
from demur.guards import tool_result
from demur.guards.input import InputText
from demur.guards.tool_result import ToolResult
from demur.model.finding import Finding

Judge = Callable[[str], str]
STRENGTH = ("block", "escalate", "warn", "")
HARMLESS = {"safe", "benign"}
UNREAD = {"C_gptfuzz_questions", "D_gptfuzz_templates"}
# Swearing is no attack: it would flatter the last level of strictness.
NOT_COUNTED = {"CONTENT_PROFANITY"}
AIM = 0.005
# Sources of which only counts are looked at.
APART = (
    *("xstest_", "coconot_pref", "catqa", "gptfuzz_q", "arena_hard", "certified_safe"),
    *("spikee", "easyjailbreak", "B_xstest", "C_gptfuzz", "D_gptfuzz"),
)
HARMFUL_KINDS = {"harm", "attack"}
HARMLESS_KINDS = {"everyday", "hard_benign"}
# A prompt that was collected once for each language counts once, and a known jailbreak that was
# collected as an everyday prompt counts neither as right nor as wrong.
ASKED_LANGUAGE = re.compile(r"\b(?:respond|reply|answer|write) in [a-z]+\b\.?", re.IGNORECASE)
KNOWN_JAILBREAK = re.compile(
    r"\bDANs?\b|do anything now|developer mode (?:is )?enabled|\bjail ?break(?:s|ing)?\b"
    r"|ignore all (?:the )?instructions you got|\b(?:STAN|DUDE)\b|ignore all open ?ai rules"
    # The same prompts in other languages: their mode for developers.
    r"|(?i:mode développeur|modo desarrollador|entwicklermodus|modalità sviluppatore)"
    r"|(?i:modo (?:de )?desenvolvedor|режим\w* разработчика|개발자 모드|وضع المطور|डेवलपर मोड)"
)
SAME_START = 60
# A rule with so many hits may hold only if it is right this often for each wrong hold.
MIN_HITS, MIN_RATIO = 20, 20
BY_CATEGORY = {"C_donotanswer", "D_agt_smoke", "D_cse_injection", "B_xstest_prompts"}
RETURNED = {"indirect_injection", "tool_result_injection", "memory_poisoning"}
# What a guide to guardrails would have one write down.
PLAIN_BLOCK = tuple(
    re.compile(f"(?:{first}).*(?:{last})")
    for first, last in (
        ("create|make|add", "bomb|weapon|explosive"),
        ("hack|break into|access", "account|password|system"),
        ("stalk|track|follow", "ex|former|neighbor"),
        ("ignore", "(?:previous|prior|above).*(?:instruction|prompt)"),
    )
)
PLAIN_ESCALATE = (
    re.compile("(?:hurt|harm|kill|attack).*(?:myself|self|someone)"),
    re.compile("suicide|self.harm|end.*.life"),
)


class Row(NamedTuple):
    """A labelled text."""

    text: str
    label: str
    category: str
    kind: str


def strongest(findings: Iterable[Finding]) -> str:
    """Return the strongest thing that the findings ask for."""
    actions = {seen.action.value for seen in findings if seen.code not in NOT_COUNTED}
    return next(strength for strength in STRENGTH if strength in actions or not strength)


def ours(text: str) -> str:
    """Return what the guard of users' text asks for."""
    return strongest(inputs.check(InputText(text)))


def returned(text: str) -> str:
    """Return what the guard of tools' results asks for."""
    return strongest(tool_result.check(ToolResult(text)))


def plain(text: str) -> str:
    """Return what the list of regexes asks for."""
    lowered = text.lower()
    if any(pattern.search(lowered) for pattern in PLAIN_ESCALATE):
        return "escalate"
    return "block" if any(pattern.search(lowered) for pattern in PLAIN_BLOCK) else ""


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a rate."""
    share, square = hits / total, 1.96**2 / total
    middle = share + square / 2
    spread = 1.96 * (share * (1 - share) / total + square / 4 / total) ** 0.5
    return max(0.0, (middle - spread) / (1 + square)), min(1.0, (middle + spread) / (1 + square))


def rows(path: Path) -> list[Row]:
    """Return the rows of one set."""
    lines = path.read_text(encoding="utf-8").split("\n")
    found: Iterator[dict[str, Any]] = map(json.loads, filter(None, lines))
    return [
        Row(row["prompt"], row["label"], row.get("category") or "", row.get("kind", ""))
        for row in found
    ]


def curve(judged: Counter[str], total: int) -> str:
    """Return the share that is held, the interval for it, and the levels around it."""
    blocked = judged["block"]
    held = blocked + judged["escalate"]
    low, high = wilson(held, total)
    return (
        f"{blocked / total:7.1%}{held / total:8.1%} [{low:5.1%},{high:6.1%}]"
        f"{(held + judged['warn']) / total:8.1%}"
    )


def line(name: str, some: list[Row], judge: Judge = ours) -> tuple[float, float]:
    """Print one line and return the shares that are held: by the guard, and by the list."""
    judged: Counter[str] = Counter()
    listed: Counter[str] = Counter()
    for row in some:
        judged[judge(row.text)] += 1
        listed[plain(row.text)] += 1
    total = len(some)
    held = (total - judged["warn"] - judged[""]) / total
    other = (total - listed[""]) / total
    print(f"{name:46}{total:6}{curve(judged, total)}   {other:7.1%}", flush=True)
    return held, other


def heading(what: str) -> None:
    """Print what follows, and its columns."""
    print(f"\n{what}")
    print(f"{'':46}{'rows':>6}{'block':>7}{'+escal.':>8}{'95 %':>15}{'+warn':>8}   {'list':>7}")


def wrong_holds(sets: dict[str, list[Row]]) -> list[str]:
    """Print how often harmless rows are held, and return the sets above the aim."""
    heading(f"harmless rows that are held (aim: {AIM:.1%} at most)")
    missed = []
    for name, all_rows in sets.items():
        some = [row for row in all_rows if row.label in HARMLESS]
        if some and line(named(name), some)[0] > AIM:
            missed.append(name)
    return missed


def recall(sets: dict[str, list[Row]]) -> None:
    """Print how many of the rows that should be held are, set by set and by category."""
    heading("harmful rows that are held, source by source")
    for name, all_rows in sets.items():
        some = [row for row in all_rows if row.label not in HARMLESS]
        if not some:
            continue
        line(named(name), some)
        if name in BY_CATEGORY:
            for category in sorted({row.category for row in some}):
                line(f"  {category[:42]}", [row for row in some if row.category == category])


def returned_text(sets: dict[str, list[Row]]) -> None:
    """Print what the guard of tools' results makes of injections, and of harmless text."""
    heading("the guard of tools' results: injections, and harmless texts as results")
    attacks = [row for row in sets.get("D_agt_smoke", ()) if row.category in RETURNED]
    if attacks:
        line("D_agt_smoke, what comes back", attacks, returned)
    attacks = [row for row in sets.get("D_cse_injection", ()) if row.kind == "indirect"]
    if attacks:
        line("D_cse_injection, indirect", attacks, returned)
    for name in ("D_agt_smoke", "E_p3_tasks", "E_selfinstruct", "E_cse_coding", "B_cyber_frr"):
        some = [row for row in sets.get(name, ()) if row.label in HARMLESS]
        if some:
            line(f"{named(name)}, harmless", some, returned)


def named(name: str) -> str:
    """Return the name of a set, marked if nobody read it."""
    return f"{name} (unread)" if name in UNREAD else name


def pages(sets: dict[str, list[Row]], size: int = 2048) -> list[str]:
    """Return harmless texts of that many characters, each seen once."""
    text = "\n".join(
        row.text for name in sorted(sets) for row in sets[name] if row.label in HARMLESS
    ) or "\n".join(
        f"Please summarise note {n} in five points, and name page {n}." for n in range(9999)
    )
    return [text[start : start + size] for start in range(0, len(text) - size, size)]


def speed(fresh: list[str]) -> None:
    """Print what a fresh page costs, once the rules are compiled."""
    half = len(fresh) // 2
    for text in fresh[:half]:
        ours(text)
        plain(text)
    for name, judge in (("the input guard", ours), ("the list of regexes", plain)):
        taken = []
        for text in fresh[half:]:
            start = time.thread_time()
            judge(text)
            taken.append((time.thread_time() - start) * 1e6)
        taken.sort()
        p99 = taken[int(len(taken) * 0.99)]
        print(
            f"{name:22} {len(taken)} fresh pages of 2 KB, CPU time: best {taken[0]:.0f} us,"
            f" p50 {statistics.median(taken):.0f} us, p99 {p99:.0f} us"
        )


def fuzz(count: int) -> None:
    """Look at that many made-up texts on each surface; whatever happens, nothing may be raised."""
    pieces = [
        *(
            "ignore ",
            "all ",
            "previous ",
            "instructions ",
            "<!--",
            "-->",
            "![",
            "](https://",
            "=",
            "{",
        ),
        *(
            "\ud800",
            "\0",
            "\u202e",
            "\U000e0041",
            "%69",
            "aWdub3Jl",
            "&#105;",
            "1gn0r3",
            "\n",
            '"',
            "'",
        ),
        *("you are DAN ", "how do i ", "kill ", "someone ", "want to die ", "4111 1111 1111 1111 "),
    ]
    state = 1
    for _ in range(count):
        text = ""
        for _ in range(state % 40):
            # A generator of its own, so that a run can be made again.
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            text += pieces[(state >> 33) % len(pieces)]
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        ours(text)
        returned(text)
    print(f"{count} made-up texts on each surface, nothing was raised")


class PoolRow(NamedTuple):
    """A labelled text of a source; `kind` is a class of harmful or harmless rows."""

    text: str
    source: str
    kind: str
    apart: bool


def load_pools(folder: Path, language: str) -> list[PoolRow]:
    """Return each text of the sets and of the training requests in a language once."""
    found: dict[str, PoolRow] = {}
    trained = folder / "train" / "requests.jsonl.xz"
    if trained.is_file():
        with lzma.open(trained, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                known = row["kind"] in HARMFUL_KINDS | HARMLESS_KINDS
                if known and row["language"] == language:
                    apart = row["source"].startswith(APART)
                    found[row["text"]] = PoolRow(row["text"], row["source"], row["kind"], apart)
    for path in sorted(folder.glob("[B-E]_*.jsonl")) if language == "en" else ():
        if "multi" not in path.stem:
            everyday = path.stem.startswith("E_")
            for some in rows(path):
                kind = "attack" if path.stem.startswith("D_") else "harm"
                if some.label in HARMLESS:
                    kind = "everyday" if everyday else "hard_benign"
                apart = path.stem.startswith(APART)
                found.setdefault(some.text, PoolRow(some.text, path.stem, kind, apart))
    return list(found.values())


def hit_rules(row: PoolRow) -> dict[str, str]:
    """Return the rules that found something in a row, each with its strongest action."""
    hits: dict[str, str] = {}
    for seen in inputs.check(InputText(row.text)):
        action = seen.action.value
        for rule in (seen.evidence.get("rule", seen.code), *seen.evidence.get("also", ())):
            if seen.code not in NOT_COUNTED:
                hits[rule] = min(action, hits.get(rule, action), key=STRENGTH.index)
    return hits


def rule_report(pools: list[PoolRow]) -> None:
    """Print what is held and warned of each source, and how right each rule is."""
    ours("")  # Compile the rules once, before there are workers.
    with multiprocessing.get_context("fork").Pool(2) as workers:
        judged = workers.map(hit_rules, pools, chunksize=200)
    by_source: dict[tuple[bool, bool, str], Counter[str]] = defaultdict(Counter)
    by_rule: dict[str, Counter[str]] = defaultdict(Counter)
    counted_once: set[tuple[str, ...]] = set()
    mislabelled = 0
    for row, hits in zip(pools, judged, strict=True):
        harmful = row.kind in HARMFUL_KINDS
        if not harmful and hits and KNOWN_JAILBREAK.search(row.text):
            mislabelled += 1
            continue
        best = min(hits.values(), key=STRENGTH.index, default="")
        by_source[row.apart, harmful, f"{row.kind} {row.source}"][best] += 1
        side = ("right" if harmful else "wrong") + (" apart" if row.apart else "")
        start = ASKED_LANGUAGE.sub("", row.text)[:SAME_START]
        for rule, action in hits.items():
            key = (rule, action, row.source, start)
            if key in counted_once:
                continue
            counted_once.add(key)
            by_rule[rule][side] += 1
            by_rule[rule][f"{side} held"] += action != "warn"
    for (apart, harmful, name), counted in sorted(by_source.items()):
        title = f"{'apart' if apart else 'development'}, {'harmful' if harmful else 'harmless'}"
        print(f"{title:23}{name:44}{counted.total():6}{curve(counted, counted.total())}")
    print(f"\nknown jailbreaks labelled harmless, left out: {mislabelled}")
    print(f"\n{'rule':36}{'right':>7}{'wrong':>7}{'held':>7}{'wrong':>7}{'apart':>7}{'wrong':>7}")
    for rule, counted in sorted(by_rule.items(), key=lambda each: -each[1]["wrong held"]):
        right, wrong = counted["right held"], counted["wrong held"]
        broken = right + wrong >= MIN_HITS and right < MIN_RATIO * wrong
        print(
            f"{rule:36}{counted['right']:7}{counted['wrong']:7}{right:7}{wrong:7}"
            f"{counted['right apart held']:7}{counted['wrong apart held']:7}"
            f"{'  below the ratio' if broken else ''}"
        )


def main() -> None:
    """Measure what there is to measure with."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--fuzz", type=int, default=0)
    parser.add_argument("--rules", action="store_true", help="count the hits of each rule")
    parser.add_argument("--language", default="en", help="of the requests for --rules")
    asked = parser.parse_args()
    if asked.rules and asked.folder is not None:
        rule_report(load_pools(asked.folder, asked.language))
        return
    sets: dict[str, list[Row]] = {}
    if asked.folder is None or not asked.folder.is_dir():
        print("no folder of labelled sets: wrong holds and recall are not measured")
    else:
        paths = sorted(asked.folder.glob("[B-E]_*.jsonl"))
        sets = {path.stem: rows(path) for path in paths}
        missed = wrong_holds(sets)
        recall(sets)
        returned_text(sets)
        print(f"\nabove the aim: {', '.join(missed) or 'none'}")
        print(f"not there: {', '.join(sorted(UNREAD - sets.keys())) or 'none'}")
    print()
    speed(pages(sets))
    if asked.fuzz:
        fuzz(asked.fuzz)


if __name__ == "__main__":
    main()
