import json

from support.command_line import demur
from support.installed_guards import GOOD, Install


def test_all_guards_are_listed_with_their_codes(install: Install) -> None:
    install(GOOD)
    ran = demur("guard", "list")

    assert ran.status == 0
    assert "acme (input, from acme-guards)\n  TERM_BLOCKLISTED\n" in ran.out
    assert "rate\n  BUDGET_EXCEEDED, RATE_LIMIT\n" in ran.out
    assert ran.out.endswith("11 guards, 1 of them installed\n")


def test_one_that_cannot_be_used_is_an_error(install: Install) -> None:
    install("raise OSError('no')")
    ran = demur("guard", "list")

    assert ran.status == 1
    assert (
        "acme-guards: entry point `acme = acme_guard`: error: the guard cannot be loaded" in ran.out
    )
    assert ran.out.endswith("10 guards, 0 of them installed; 1 cannot be used\n")


def test_it_is_there_as_json(install: Install) -> None:
    install("CODES = ()")
    rows = json.loads(demur("guard", "list", "--json").out)

    assert rows[0]["name"] == rows[0]["surface"] == "input"
    assert rows[0]["source"] == "built in"
    assert "CONTENT_CYBER" in rows[0]["codes"]
    assert rows[-1]["source"] == "acme-guards"
    assert len(rows[-1]["problems"]) == 3
