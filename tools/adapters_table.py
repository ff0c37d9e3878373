"""Run every scenario on every framework driver that this environment supports, and print a table.

Some frameworks have an environment of their own: their results are written to a file with `--to`,
and read into the table with `--with`.
"""

import argparse
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from demur.errors import MissingExtraError
from demur.testing.conformance import BareDriver, ScenarioOutcome, format_results, run_scenarios
from demur.testing.scenarios import SCENARIOS, FrameworkDriver

DRIVERS = Path(__file__).resolve().parent.parent / "tests" / "adapters"


def drivers(which: str = "*", folder: Path | None = None) -> Iterator[FrameworkDriver]:
    """Yield the drivers whose framework is installed here."""
    folder = DRIVERS if folder is None else folder
    sys.path[:0] = [str(folder), str(folder.parent)]
    for path in sorted(folder.glob(f"driver_{which}.py")):
        try:
            module: Any = import_module(path.stem)
        except (MissingExtraError, ModuleNotFoundError) as error:
            if which != "*" or not _is_missing_framework(error):
                raise
            print(f"{path.stem} cannot run here: {error}", file=sys.stderr)
            continue
        yield from module.DRIVERS


def _drivers_of(names: Sequence[str]) -> list[FrameworkDriver]:
    return [driver for name in names for driver in drivers(name)]


def _is_missing_framework(error: ImportError) -> bool:
    """Return whether a package of somebody else is missing, not a part of this project."""
    if isinstance(error, MissingExtraError):
        return True
    name = (error.name or "").partition(".")[0]
    return name not in {"demur", "support", "adapters"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a scenario failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, metavar="FILE")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME")
    parser.add_argument("--with", nargs="+", type=Path, metavar="FILE", dest="others", default=[])
    given = parser.parse_args(arguments)
    with _quiet():
        return _write(given.to, given.only) if given.to else _print(given.only, given.others)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the log: guards that scenarios break report it each time."""
    log = logging.getLogger("demur")
    level = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(level)


def _write(path: Path, names: Sequence[str]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    outcomes = run_scenarios(_drivers_of(names), SCENARIOS)
    path.write_text(json.dumps([one._asdict() for one in outcomes]))
    return 0


def _print(names: Sequence[str], others: Sequence[Path]) -> int:
    outcomes = run_scenarios([BareDriver(), *_drivers_of(names)], SCENARIOS)
    for file in others:
        outcomes += [ScenarioOutcome(**one) for one in json.loads(file.read_text())]
    print(format_results(outcomes))
    failed = [one for one in outcomes if one.problems]
    for one in failed:
        print(f"{one.driver}, {one.scenario}: {'; '.join(one.problems)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
