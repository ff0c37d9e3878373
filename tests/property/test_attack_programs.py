"""The command guard holds programs that a real shell, Python or Perl was shown to run.

A program is generated in two forms. The harmless one runs in a sandbox and proves that its payload
is reached; the destructive one is a text that the guard judges. `bench/shell_programs.py` prints
the figures of each family and the programs that pass.
"""

import pytest
from support.attack_programs.programs import (
    FAMILIES,
    REVIEWED_FAMILIES,
    FamilyCount,
    count_families,
    draw_program,
)
from support.attack_programs.sandbox import HarmlessProgram, find_problem, find_reached

MAX_PASSING = 0.05
pytestmark = pytest.mark.skipif(bool(find_problem()), reason=find_problem() or "programs can run")


def describe_misses(counts: list[FamilyCount]) -> list[str]:
    """Return a line for each family of which too many programs pass."""
    lines = []
    for one in counts:
        # A small sample may miss a share that holds for the family as a whole.
        if len(one.passing) > max(MAX_PASSING * one.reached, 1):
            shown = sorted((program.text for program in one.passing), key=len)[:5]
            lines.append(f"{one.family}: {len(one.passing)} of {one.reached} pass: {shown}")
    return lines


def test_few_programs_that_run_a_payload_pass() -> None:
    counts = count_families(200)

    assert describe_misses(counts) == []
    assert sum(one.reached for one in counts) > 100


@pytest.mark.slow
def test_few_of_many_programs_that_run_a_payload_pass() -> None:
    counts = count_families(10_000, seed=1)

    assert describe_misses(counts) == []
    assert sum(one.generated for one in counts) >= 10_000
    assert all(one.reached > one.generated / 2 for one in counts if one.family in REVIEWED_FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_both_forms_of_a_program_differ_in_the_payload_alone(family: str) -> None:
    for seed in range(20):
        program = draw_program(seed, family)

        assert program == draw_program(seed, family)
        assert program.text != program.harmless.text
        assert "rm -rf" not in program.harmless.text


def test_the_sandbox_asks_for_the_payload_with_its_arguments() -> None:
    wanted = ("qz", "-rf", "/")
    programs = [
        HarmlessProgram("qz -rf /", "bash", wanted),
        HarmlessProgram("qz -rf", "bash", wanted),
        HarmlessProgram("echo qz -rf /", "bash", wanted),
        HarmlessProgram("cd /; qz -rf /", "bash", wanted, "/"),
        HarmlessProgram("qz -rf /", "bash", wanted, "/"),
        HarmlessProgram("import shutil; shutil.rmtree('vict')", "python3", ("victim",)),
    ]

    assert find_reached(programs) == [True, False, False, True, False, True]


def test_the_sandbox_has_no_secrets_no_network_and_no_root() -> None:
    shows = {
        '[ "$(id -u 2>/dev/null || echo 1)" != 0 ] && [ "$UID" != 0 ]': True,
        '[ -w /etc ] || [ -w /usr ] || [ "$EUID" = 0 ]': False,
        '[ -n "$DEMUR_CACHE$VIRTUAL_ENV$USER" ]': False,
        "command -v curl || command -v wget || command -v rm || command -v sudo": False,
    }
    programs = [HarmlessProgram(f"{{ {test}; }} && qz a", "bash", ("qz", "a")) for test in shows]

    assert find_reached(programs) == list(shows.values())
