"""Play every scene on every stage that this environment can run, and print one table.

LiteLLM has an environment of its own, so what was played there is written to a file with
`--to`, and read into the table with `--with`.
"""

import argparse
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from demur.errors import MissingExtraError
from demur.testing.conformance.bare_stage import BareStage
from demur.testing.conformance.play import Played, play_all, table
from demur.testing.conformance.scene import Stage

STAGES = Path(__file__).resolve().parent.parent / "tests" / "adapters"


def stages(which: str = "*", folder: Path = STAGES) -> Iterator[Stage]:
    """Yield the stages whose framework is installed here."""
    sys.path[:0] = [str(folder), str(folder.parent)]
    for path in sorted(folder.glob(f"stage_{which}.py")):
        try:
            module = import_module(path.stem)
        except (MissingExtraError, ModuleNotFoundError) as error:
            if which != "*":
                raise
            print(f"{path.stem} is not played here: {error}", file=sys.stderr)
            continue
        yield from _defined(module)


def _defined(module: Any) -> Iterator[Stage]:
    if hasattr(module, "STAGES"):
        yield from module.STAGES
        return
    for value in vars(module).values():
        mine = isinstance(value, type) and value.__module__ == module.__name__
        if mine and all(hasattr(value, name) for name in ("name", "points", "ends_runs", "play")):
            yield cast("Stage", value())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a cell of it is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, metavar="FILE")
    parser.add_argument("--only", default="*", metavar="NAME")
    parser.add_argument("--with", type=Path, metavar="FILE", dest="others")
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    if given.to is not None:
        given.to.parent.mkdir(exist_ok=True)
        given.to.write_text(json.dumps([one._asdict() for one in play_all(stages(given.only))]))
        return 0
    played = play_all([BareStage(), *stages(given.only)])
    if given.others is not None:
        played += [Played(**one) for one in json.loads(given.others.read_text())]
    print(table(played))
    wrong = [one for one in played if one.problems]
    for one in wrong:
        print(f"{one.stage}, {one.scene}: {'; '.join(one.problems)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
