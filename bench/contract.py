"""The contract's hot paths beside the `re` code one would write by hand, in one interleaved run.

Each row alternates between both sides for many rounds and compares medians, so a busy
machine slows both alike. Ratios are what counts.
"""

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from demur import format_refusal, parse_refusal
from demur.codes import Registry

ROUNDS = 60
CANONICAL = "REFUSED: RCE_RISK: curl -fsSL https://example.com/install.sh | sh"
LEGACY = "upstream answered: Rate limit exceeded, please slow down and come back in a minute"
PROSE = (
    "The quarterly report is ready. Revenue grew by four percent in the north and fell a little "
    "in the south; the team would look at prices before the next round and asks to meet on Tuesday "
    "about it all."
)[:200]
DETAIL = "curl -fsSL https://example.com/install.sh | sh"

LINE = re.compile(r"REFUSED: ([A-Z][A-Z0-9_]*[A-Z0-9]): (.*)")
PHRASES = Registry.load().phrases
ALTERNATION = re.compile(
    "|".join(map(re.escape, sorted(PHRASES, key=len, reverse=True))), re.IGNORECASE
)


def compiled_parse(text: str) -> tuple[str, str] | None:
    """Parse as a module with a compiled pattern would."""
    found = LINE.match(text)
    return (found[1], found[2]) if found else None


def plain_parse(text: str) -> tuple[str, str] | None:
    """Parse as a script would, with `re.match`."""
    found = re.match(r"REFUSED: ([A-Z][A-Z0-9_]*[A-Z0-9]): (.*)", text)
    return (found[1], found[2]) if found else None


def plain_legacy(text: str) -> tuple[str, str] | None:
    """Look for any of the phrases with one alternation."""
    found = ALTERNATION.search(text)
    return (PHRASES[found[0].lower()], text) if found else None


def plain_format(code: str, detail: str) -> str:
    """Format with line breaks replaced, the least a careful script does."""
    return f"REFUSED: {code}: " + re.sub(r"[\r\n\u2028\u2029]+", " ", detail)


class Row(NamedTuple):
    """One comparison: both sides, how often to call in a round, and the aim for the ratio."""

    name: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    calls: int
    aim: str


ROWS = (
    Row(
        "parse, canonical line, against re.match",
        lambda: parse_refusal(CANONICAL),
        lambda: plain_parse(CANONICAL),
        2000,
        "<= 1",
    ),
    Row(
        "parse, canonical line, against a compiled pattern",
        lambda: parse_refusal(CANONICAL),
        lambda: compiled_parse(CANONICAL),
        2000,
        "",
    ),
    Row(
        "parse, legacy line, against the alternation",
        lambda: parse_refusal(LEGACY),
        lambda: plain_legacy(LEGACY),
        50,
        "",
    ),
    Row(
        "reject 200 characters of prose, against the alternation",
        lambda: parse_refusal(PROSE),
        lambda: plain_legacy(PROSE),
        20,
        "<= 0.1",
    ),
    Row(
        "format, against re.sub",
        lambda: format_refusal("RCE_RISK", DETAIL),
        lambda: plain_format("RCE_RISK", DETAIL),
        2000,
        "<= 1",
    ),
)


def seconds(call: Callable[[], object], calls: int) -> float:
    """Return the seconds one call takes, over a round."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def measure(row: Row) -> tuple[float, float]:
    """Return the medians of both sides, taken in turns."""
    for call in (row.ours, row.theirs):
        call()
    rounds = [(seconds(row.ours, row.calls), seconds(row.theirs, row.calls)) for _ in range(ROUNDS)]
    ours, theirs = zip(*rounds, strict=True)
    return statistics.median(ours), statistics.median(theirs)


def process_seconds(code: str) -> float:
    """Return the seconds that a fresh interpreter needs for `code`."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


IMPORTS = {
    "import demur": "import demur",
    "from demur import parse_refusal": "from demur import parse_refusal",
    "from demur import * (all there is)": "from demur import *",
}
AIMS = {"import demur": "< 60 ms"}
COUNT = """
import sys
before = set(sys.modules)
{statement}
ours = {{'demur', *sys.stdlib_module_names}}
print(sum(name.partition('.')[0] not in ours for name in set(sys.modules) - before))
"""


def imports() -> dict[str, float]:
    """Return what each import adds to a bare interpreter, in milliseconds."""
    taken: dict[str, list[float]] = {name: [] for name in ("bare", *IMPORTS)}
    for _ in range(15):
        for name, samples in taken.items():
            samples.append(process_seconds(IMPORTS.get(name, "pass")))
    bare = statistics.median(taken.pop("bare"))
    return {name: (statistics.median(samples) - bare) * 1000 for name, samples in taken.items()}


def main() -> None:
    """Print the table."""
    print(f"{'':58}{'demur':>10}{'by hand':>10}{'ratio':>8}  aim")
    for row in ROWS:
        ours, theirs = measure(row)
        print(
            f"{row.name:58}{ours * 1e6:8.2f}µs{theirs * 1e6:8.2f}µs{ours / theirs:8.2f}  {row.aim}"
        )
    for name, milliseconds in imports().items():
        print(f"{name:58}{milliseconds:8.1f}ms{'':18}  {AIMS.get(name, '')}")
    for name, statement in IMPORTS.items():
        print(f"{'third-party modules after ' + name:58}{third_party(statement):>10}{'':18}  < 15")


def third_party(statement: str) -> int:
    """Return how many modules of other packages a statement loads."""
    code = COUNT.format(statement=statement)
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return int(ran.stdout)


if __name__ == "__main__":
    main()
