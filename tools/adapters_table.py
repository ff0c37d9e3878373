"""Play every scene on every stage that this environment can run, and print one table.

LiteLLM has an environment of its own, so what was played there is written to a file with
`--to`, and read into the table with `--with`.
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
    """Yield the stages whose framework is installed here."""
    folder = DRIVERS if folder is None else folder
    sys.path[:0] = [str(folder), str(folder.parent)]
    for path in sorted(folder.glob(f"stage_{which}.py")):
        try:
            module: Any = import_module(path.stem)
        except (MissingExtraError, ModuleNotFoundError) as error:
            if which != "*" or not _is_missing_framework(error):
                raise
            print(f"{path.stem} is not played here: {error}", file=sys.stderr)
            continue
        yield from module.STAGES


def _is_missing_framework(error: ImportError) -> bool:
    """Return whether somebody else's package is missing, and not a part of this project."""
    if isinstance(error, MissingExtraError):
        return True
    name = (error.name or "").partition(".")[0]
    return name != "demur" and not (DRIVERS.parent / f"{name}.py").exists()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a cell of it is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, metavar="FILE")
    parser.add_argument("--only", default="*", metavar="NAME")
    parser.add_argument("--with", type=Path, metavar="FILE", dest="others")
    given = parser.parse_args(arguments)
    with _quiet():
        return _write(given.to, given.only) if given.to else _print(given.only, given.others)


@contextmanager
def _quiet() -> Iterator[None]:
    """Guards that are made to fail say so, scene after scene: nobody needs to read that."""
    log = logging.getLogger("demur")
    level = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(level)


def _write(path: Path, which: str) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([one._asdict() for one in run_scenarios(drivers(which), SCENARIOS)]))
    return 0


def _print(which: str, others: Path | None) -> int:
    played = run_scenarios([BareDriver(), *drivers(which)], SCENARIOS)
    if others is not None:
        played += [ScenarioOutcome(**one) for one in json.loads(others.read_text())]
    print(format_results(played))
    wrong = [one for one in played if one.problems]
    for one in wrong:
        print(f"{one.driver}, {one.scenario}: {'; '.join(one.problems)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
