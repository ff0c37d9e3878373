"""The scanner beside a loop of the same rules in Python's `re`, and its cost as text grows.

Prompts are fresh in every round: an engine that builds its automaton while it runs looks
better than it is on text that it has seen before.
"""

import argparse
import json
import os
import re
import statistics
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from demur.codes.vocabulary import Surface
from demur.guards.input import InputText, check
from demur.guards.rule_matching import RuleMatcher, scan_text
from demur.guards.text_rules import RuleSet, TextRule
from demur.model.finding import Action
from demur.scan.database import Re2Engine, ScanEngineType, choose_engine
from demur.scan.pattern import parse_pattern
from demur.text.fold import fold_text

RULES = 300
PROMPTS = 400
SIZE = 2_048
LOOP_PROMPTS = 8
AIM_RATIO = 100
AIM_SECONDS = 50e-6
LENGTHS = (2_000, 20_000, 200_000, 2_000_000, 10_000_000)
# Acts, links and objects: 10 * 5 * 6 rules of the shape that people write.
ACTS = (
    r"ignore|disregard",
    r"bypass(es|ing)?",
    r"reveal|disclose|leak",
    r"override|overrule",
    r"forge|counterfeit",
    r"assembl(e|ing)",
    r"detonat(e|ing)",
    r"launder(ing)?",
    r"exfiltrat(e|ing)",
    r"disabl(e|ing)",
)
LINKS = (
    r".{0,40}",
    r"\s(all|any|every)\s.{0,20}",
    r".{0,60}",
    r"(\s\w{1,12}){0,4}\s",
    r"\s?.{0,30}",
)
OBJECTS = (
    r"(previous|prior) (instructions?|orders?)",
    r"(safety|content) (filters?|checks?)",
    r"(system|hidden) prompts?",
    r"(detonators?|grenades?)",
    r"(passports?|banknotes?)",
    r"(alarms?|sensors?)",
)
_WORDS = """
the of and to in that it is was for on are with as they be at one have this from or had by hot but
some what there we can out other were all your when up use word how said each she which do their
time if will way about many then them would write like so these her long make thing see him two has
look more day could go come did my sound no most number who over know water than call first people
may down side been now find any new work part take get place made live where after back little only
round man year came show every good me give our under name very through just form much great think
say help low line before turn cause same mean differ move right boy old too does tell sentence set
three want air well also play small end put home read hand port large spell add even land here must
big high such follow act why ask men change went light kind off need house picture try us again
animal point mother world near build self earth father head stand own page should country found
answer school grow study still learn plant cover food sun four thought let keep eye never last door
between city tree cross since hard start might story saw far sea draw left late run while press
close night real life few stop open seem together next white children begin got walk example ease
paper often always music those both mark book letter until mile river car feet care second group
carry took rain eat room friend began idea fish mountain north once base hear horse cut sure watch
color face wood main instructions safety system order filter alarm prompt passport checks hidden
"""
VOCABULARY = _WORDS.split()


class Engine(NamedTuple):
    """A sort of engine under its name."""

    name: str
    kind: ScanEngineType


def rule_set() -> RuleSet:
    """Return the rules."""
    sources = [
        rf"\b({act})\b{link}\b{thing}\b" for act, link, thing in product(ACTS, LINKS, OBJECTS)
    ]
    rules = tuple(
        TextRule(
            id=f"R{number}",
            code="CONTEXT_INJECTION",
            action=Action.BLOCK,
            description="made up",
            patterns=(parse_pattern(source),),
        )
        for number, source in enumerate(sources[:RULES])
    )
    return RuleSet(surface=Surface.INPUT, rules=rules, digest="bench")


def prose(seed: int) -> Iterator[str]:
    """Yield words without end, other ones for each seed; the same in every run."""
    state = seed * 2_654_435_761 % 2**32 + 1
    for place in range(sys.maxsize):
        state = (state * 1_103_515_245 + 12_345) % 2**31
        word = VOCABULARY[(state >> 8) % len(VOCABULARY)]
        yield word + (".\n\n" if place % 60 == 59 else "," if place % 11 == 10 else "")


def text_of(length: int, seed: int) -> str:
    """Return prose of this length."""
    words: list[str] = []
    have = 0
    for word in prose(seed):
        words.append(word)
        have += len(word) + 1
        if have > length:
            return " ".join(words)[:length]
    raise AssertionError


def timings(call: Callable[[str], object], texts: Sequence[str]) -> list[float]:
    """Return the seconds that each call takes, in order of size."""
    taken = []
    for text in texts:
        start = time.perf_counter()
        call(text)
        taken.append(time.perf_counter() - start)
    return sorted(taken)


def show(name: str, taken: list[float], note: str = "") -> float:
    """Print a row and return its median."""
    half, late = statistics.median(taken), taken[int(len(taken) * 0.99)]
    print(f"{name:52}{half * 1e6:>12.1f}{late * 1e6:>12.1f}  {note}".rstrip(), flush=True)
    return half


def loop(rules: RuleSet) -> Callable[[str], object]:
    """Return what a script would do: each rule by itself, on the text in lower case."""
    compiled = [re.compile(rule.patterns[0].source) for rule in rules.rules]
    return lambda text: [found for rule in compiled if (found := rule.search(text.lower()))]


def adversarial() -> list[str]:
    """Return texts that make engines that go back and forth hang."""
    words = ["ignore ", "previous ", "assemble any ", "a" * 9 + " ", "disable every ", "x " * 4]
    mixed = ["".join(words[(n * 7 + seed) % len(words)] for n in range(600)) for seed in range(40)]
    return [text[:SIZE] for text in (*mixed, *("ignore " * (300 + n) for n in range(60)))]


def main() -> int:
    """Print the table; the status says whether all aims were met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the longest texts")
    parser.add_argument("--data", type=Path, help="a JSON lines file of requests, for one row more")
    options = parser.parse_args()
    quick = options.quick
    rules = rule_set()
    engines = [Engine("re2", Re2Engine)]
    if choose_engine() is not Re2Engine:
        engines.insert(0, Engine("hyperscan", choose_engine()))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DEMUR_CACHE"] = folder
        missed = prompts(rules, engines)
        whole_guard(options.data)
        for engine in engines:
            growth(rules, engine, LENGTHS[:-1] if quick else LENGTHS)
        compiling(rules, engines)
    return int(missed)


def prompts(rules: RuleSet, engines: list[Engine]) -> bool:
    """Print the cost of fresh prompts; return whether an aim was missed."""
    print(f"{RULES} rules, prompts of {SIZE} characters{'p50 µs':>22}{'p99 µs':>12}")
    texts = iter(text_of(SIZE, seed) for seed in range(10_000))

    def fresh(count: int = PROMPTS) -> list[str]:
        return [next(texts) for _ in range(count)]

    slow = show("Python re, one rule after the other", timings(loop(rules), fresh(LOOP_PROMPTS)))
    missed = False
    for name, kind in engines:
        matcher = RuleMatcher(rules, engine=kind)
        find = _finder(matcher)
        timings(find, fresh())
        half = show(f"{name}: fold + scan", timings(find, fresh()))
        ratio = slow / half
        print(f"{'':52}{ratio:>11.0f}x the speed of the loop", flush=True)
        hostile = adversarial()
        timings(find, hostile)
        show(f"{name}: fold + scan, adversarial texts", timings(find, hostile))
        if name == "hyperscan":
            missed |= half > AIM_SECONDS or ratio < AIM_RATIO
    timings(lambda text: scan_text(text, rules), fresh())
    whole = show("fold + scan + other readings, as guards do", timings(_whole(rules), fresh()))
    show("the same, Cyrillic prose", timings(_whole(rules), [_cyrillic(text) for text in fresh()]))
    hostile = adversarial()
    show("the same, Python re, adversarial texts", timings(loop(rules), hostile[:4]))
    missed |= whole > AIM_SECONDS
    aims = f"{AIM_SECONDS * 1e6:.0f} µs p50 and {AIM_RATIO}x"
    print(f"aims ({aims}): {'MISSED' if missed else 'met'}\n", flush=True)
    return missed


def whole_guard(data: Path | None) -> None:
    """Print the cost of the input guard with its own rules, on pages it has not seen before."""
    print(f"the input guard, texts of {SIZE} characters{'p50 µs':>24}{'p99 µs':>12}")
    library = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    sets = {
        "prose of common words": [text_of(SIZE, seed) for seed in range(20_000, 20_000 + PROMPTS)],
        "code of the standard library": pages(path.read_text("utf-8") for path in library),
    }
    if data:
        rows = map(json.loads, filter(None, data.read_text("utf-8").split("\n")))
        sets[data.stem] = pages(row.get("prompt") or row.get("text") or "" for row in rows)
    list(check(InputText("warm up")))
    for name, texts in sets.items():
        show(name, timings(lambda text: list(check(InputText(text))), texts))
    print(flush=True)


def pages(texts: Iterable[str]) -> list[str]:
    """Return the texts, one after the other, in pages of one size."""
    whole = "\n".join(texts)
    return [whole[at : at + SIZE] for at in range(0, len(whole) - SIZE, SIZE)][:PROMPTS]


def _finder(matcher: RuleMatcher) -> Callable[[str], object]:
    return lambda text: matcher.find_hits(fold_text(text).data)


def _whole(rules: RuleSet) -> Callable[[str], object]:
    return lambda text: scan_text(text, rules)


def _cyrillic(text: str) -> str:
    letters = "абвгдежзийклмнопрстуфхцчшщ"
    return text.translate({ord("a") + place: letter for place, letter in enumerate(letters)})


def growth(rules: RuleSet, engine: Engine, lengths: Sequence[int]) -> None:
    """Print how the cost grows with the text."""
    matcher = RuleMatcher(rules, engine=engine.kind)
    find = _finder(matcher)
    for length in lengths:
        texts = [text_of(length, seed) for seed in range(3)]
        timings(find, texts)
        half = statistics.median(timings(find, texts))
        rate = length / half / 1e6
        print(f"{engine.name}: {length:>12,} characters {half * 1e3:>12.2f} ms {rate:>9.0f} MB/s")
    print(flush=True)


def compiling(rules: RuleSet, engines: list[Engine]) -> None:
    """Print what the first use costs, without and with what was kept."""
    for name, kind in engines:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["DEMUR_CACHE"] = folder
            for state in ("first use", "in the next process"):
                matcher = RuleMatcher(rules, engine=kind)
                start = time.perf_counter()
                matcher.find_hits(b"x")
                taken = (time.perf_counter() - start) * 1e3
                print(f"{name}: {state:22}{taken:>12.1f} ms", flush=True)


if __name__ == "__main__":
    sys.exit(main())
