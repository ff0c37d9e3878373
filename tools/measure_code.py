"""Print how the code is named and cut: `python tools/measure_code.py [--check]`.

Each row is a count with its limit. `--check` ends with status 1 if a limit is exceeded.
`tests/architecture/test_names.py` holds the same limits that need no subprocess.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from demur.source.python_tree import parse_tree

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "demur"
MIN_MODULE_LINES = 50
LIMIT_WORDS = re.compile(r"^_?(MOST|LONGEST|DEEPEST|LARGEST|WIDEST|HIGHEST|FEWEST|SHORTEST|LEAST)_")
IRREGULAR = frozenset(
    {
        *("begun", "bound", "bought", "brought", "built", "caught", "chosen", "done", "drawn"),
        *("driven", "felt", "found", "given", "gone", "heard", "held", "kept", "known", "laid"),
        *("led", "left", "lent", "lost", "made", "meant", "met", "paid", "proven", "said", "seen"),
        *("sent", "shown", "spent", "spoken", "stood", "struck", "sworn", "taken", "taught"),
        *("thought", "told", "torn", "understood", "woken", "won", "worn", "written"),
    }
)
# Words that end in "ed" and are no participles, and the name of the public decorator.
NO_PARTICIPLES = frozenset(
    {"embed", "exceed", "feed", "guarded", "need", "proceed", "seed", "shed", "speed"}
)
# Words of the first version's private dialect: wrong in any name of this project.
STOP_WORDS_IN_NAMES = frozenset(
    {
        *("babble", "behest", "doorkeeper", "heard", "lanes", "occasion", "reckoning", "remark"),
        *("remarks", "shelf", "sighting", "teller", "told", "tongue", "whither", "whoever"),
    }
)
# The same for docstrings, comments, messages and docs, where some of them are ordinary English.
# A sentence has an actor, so none begins with "Whoever".
STOP_WORDS_IN_PROSE = re.compile(
    r"\b(?:Whoever|(?i:doorkeeper|hearsay|occasion|reckoning|sighting|teller|whither)s?)\b"
)
# One refused call of a decorated function, warm; prints modules visited and modules loaded.
WALK = """
import sys
from demur import Enforcer, Gate, open_store
from demur.integrations.guarded import guarded
from demur.policy import parse_policy

POLICY = parse_policy('''
schema_version: policy.v1
policy_id: walk
policy_version: 1.0.0
rules:
  - id: R_REFUND
    stage: HARD_BLOCKS
    if: {action_type: refund}
    then: {verdict: DENY, reason_codes: [CHARGEBACK_RISK_BLOCK]}
''')
enforcer = Enforcer(Gate(POLICY, open_store(":memory:")))

@guarded(enforcer)
def refund(amount: int) -> str:
    return "paid"

def call() -> None:
    try:
        refund(900)
    except Exception as error:
        assert type(error).__name__ == "Refused", error
    else:
        raise AssertionError("not refused")

for _ in range(3):
    call()
visited = set()

def trace(frame, event, argument):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.startswith("demur"):
        visited.add(name)

sys.setprofile(trace)
call()
sys.setprofile(None)
loaded = sum(name == "demur" or name.startswith("demur.") for name in sys.modules)
print(len(visited), loaded)
"""


class Count(NamedTuple):
    """One figure, the most it may be, and how it is printed."""

    name: str
    value: float
    limit: float
    unit: str = ""


def parse_modules() -> dict[str, ast.Module]:
    """Return the syntax tree of each module, by its path inside the package."""
    return {
        str(path.relative_to(PACKAGE)): parse_tree(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def function_names(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Yield the name of each function and method but dunders."""
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not (
                node.name.startswith("__") and node.name.endswith("__")
            ):
                yield node.name


def class_names(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Yield the name of each class."""
    for tree in trees.values():
        yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def is_bare_participle(name: str) -> bool:
    """Return whether a function's name is a past participle and nothing else."""
    word = name.strip("_")
    if "_" in word or word in NO_PARTICIPLES:
        return False
    return word in IRREGULAR or (word.endswith("ed") and len(word) > len("ed") + 1)


def limit_names(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Yield constants that name a limit by another word than MAX or MIN."""
    for tree in trees.values():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Store)
                and LIMIT_WORDS.match(node.id)
            ):
                yield node.id


def stop_words_in_names(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Yield `module: name` for each name that is built with a stop word."""
    for module, tree in trees.items():
        for name in sorted(set(_defined_names(tree))):
            words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
            if STOP_WORDS_IN_NAMES.intersection(words):
                yield f"{module}: {name}"


def _defined_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.arg(arg=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
            ):
                yield name
            case _:
                pass


def stop_words_in_prose() -> Iterator[str]:
    """Yield `file:line: word` for each stop word in sources and docs."""
    docs = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for path in sorted([*PACKAGE.rglob("*.py"), *docs]):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for found in STOP_WORDS_IN_PROSE.findall(line):
                yield f"{path.relative_to(ROOT)}:{number}: {found}"


def deep_imports() -> Iterator[str]:
    """Yield modules below the public level that docs or examples import from."""
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for path in [*pages, *(ROOT / "examples").rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        for module in re.findall(r"^\s*(?:from|import) (demur(?:\.\w+)*)", text, re.MULTILINE):
            parts = module.split(".")
            depth = 3 if parts[1:2] == ["integrations"] else 2
            if len(parts) > depth:
                yield module


def root_names() -> list[str]:
    """Return the public names of the package."""
    tree = parse_tree((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def walk_refused_call() -> tuple[int, int]:
    """Return how many modules one refused call visits, and how many are loaded by then."""
    done = subprocess.run([sys.executable, "-c", WALK], capture_output=True, text=True, check=True)
    visited, loaded = done.stdout.split()
    return int(visited), int(loaded)


def measure() -> Iterator[Count]:
    """Yield each count."""
    trees = parse_modules()
    lines = {name: (PACKAGE / name).read_text(encoding="utf-8").count("\n") for name in trees}
    functions = list(function_names(trees))
    classes = Counter(class_names(trees))
    one_word = sum("_" not in name.strip("_") for name in functions)
    shared = sum(count for count in classes.values() if count > 1)
    yield Count("modules", len(trees), 480)
    yield Count("lines", sum(lines.values()), 92_000)
    yield Count("modules under 50 lines", sum(n < MIN_MODULE_LINES for n in lines.values()), 40)
    yield Count("classes that share their name", 100 * shared / classes.total(), 2, "%")
    yield Count("functions of one word", 100 * one_word / len(functions), 45, "%")
    yield Count("bare participles", sum(map(is_bare_participle, functions)), 0)
    yield Count("limits not called MAX or MIN", sum(1 for _ in limit_names(trees)), 0)
    yield Count("names in the root", len(root_names()), 20)
    yield Count("deep modules in docs", len(set(deep_imports())), 0)
    visited, loaded = walk_refused_call()
    yield Count("modules visited by a refused call", visited, 32)
    yield Count("modules loaded by then", loaded, 200)


def main() -> int:
    """Print the table; with `--check`, fail where a limit is exceeded."""
    exceeded = 0
    for count in measure():
        value = f"{count.value:,.1f} %" if count.unit else f"{count.value:,.0f}"
        over = count.value > count.limit
        exceeded += over
        print(f"{count.name:36} {value:>10}  limit {count.limit:,}{'  OVER' if over else ''}")
    return int(bool(exceeded) and "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
