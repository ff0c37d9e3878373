"""The command guard against generated programs that a real shell, Python or Perl was seen to run.

    python bench/shell_programs.py [--count N] [--seed N] [--family NAME] [--show N] [--unreached N]

Each program exists in two forms. The harmless one names a marker program and runs in a sandbox,
which proves that its payload is reached. The destructive one is never run: the guard judges its
text. A program passes if the guard neither blocks nor escalates it. `--show` prints the shortest
programs that pass in each family, and `--unreached` programs of rows that were never reached.
The last column is the share whose harmless form is held as well, by its structure alone.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.attack_programs.programs import (
    FAMILIES,
    FamilyCount,
    count_families,
    draw_programs,
)
from support.attack_programs.sandbox import find_problem, find_reached


def print_table(counts: list[FamilyCount]) -> None:
    """Print the counts of each family, and their sums."""
    print(
        f"{'family':28}{'generated':>10}{'reached':>9}{'passed':>8}{'share':>8}{'marker held':>13}"
    )
    for one in counts:
        held = 100 * one.held_harmless / max(one.reached, 1)
        print(
            f"{one.family:28}{one.generated:>10,}{one.reached:>9,}{len(one.passing):>8,}"
            f"{100 * one.share:>6.1f} %{held:>11.1f} %"
        )
    reached, passed = sum(one.reached for one in counts), sum(len(one.passing) for one in counts)
    print(
        f"{'all':28}{sum(one.generated for one in counts):>10,}{reached:>9,}{passed:>8,}"
        f"{100 * passed / max(reached, 1):>6.1f} %"
    )


def print_passing(counts: list[FamilyCount], number: int) -> None:
    """Print the shortest programs of each family that pass, one for each row of templates."""
    for one in counts:
        shortest = {
            program.row: program
            for program in sorted(one.passing, key=lambda program: -len(program.text))
        }
        print(f"\n{one.family}: {len(shortest)} rows pass")
        for program in sorted(shortest.values(), key=lambda program: len(program.text))[:number]:
            print(f"  [{program.language.value}] {program.text!r}")


def print_unreached(count: int, families: list[str], seed: int, number: int) -> None:
    """Print rows of templates of which no program was reached."""
    programs = list(draw_programs(count, families, seed))
    reached = find_reached([program.harmless for program in programs])
    rows = {one.row for one, proof in zip(programs, reached, strict=True) if proof}
    left = {(one.family, one.row): one.harmless.text for one in programs if one.row not in rows}
    for (family, _), text in sorted(left.items(), key=lambda item: len(item[1]))[:number]:
        print(f"  {family}: {text!r}")


def main() -> int:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2_800)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("--unreached", type=int, default=0)
    parser.add_argument("--later", action="store_true", help="only rows that nobody tuned by")
    options = parser.parse_args()
    if problem := find_problem():
        print(f"shell_programs: {problem}")
        return 0
    families = options.family or list(FAMILIES)
    counts = count_families(options.count, families, seed=options.seed, later=options.later)
    print_table(counts)
    if options.show:
        print_passing(counts, options.show)
    if options.unreached:
        print_unreached(options.count, families, options.seed, options.unreached)
    return 0


if __name__ == "__main__":
    sys.exit(main())
