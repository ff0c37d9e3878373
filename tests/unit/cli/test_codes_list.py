import json

import pytest

from demur.cli.main import main
from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass, Severity, Surface

Capture = pytest.CaptureFixture[str]


def listed(capsys: Capture, *options: str) -> list[dict[str, object]]:
    assert main(["codes", "list", "--json", *options]) == 0
    entries: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return entries


def test_every_code_stands_in_the_table(core: Registry, capsys: Capture) -> None:
    assert main(["codes", "list"]) == 0

    head, *rows, total = capsys.readouterr().out.splitlines()
    assert head.split() == ["CODE", "CLASS", "SEVERITY", "FAMILY", "TITLE"]
    assert [row.split()[0] for row in rows] == [entry.code for entry in core]
    assert total == f"{len(core)} of {len(core)} codes, {core.label}"


def test_a_deprecated_code_and_one_that_allows_are_marked(capsys: Capture) -> None:
    assert main(["codes", "list"]) == 0

    rows = capsys.readouterr().out.splitlines()
    [old] = [row for row in rows if row.startswith("OLD_FRAUD_BLOCK ")]
    [allowing] = [row for row in rows if row.startswith("SUCCESS_MEMORY_SIMILAR_ALLOW ")]
    assert old.startswith("OLD_FRAUD_BLOCK (deprecated) ")
    assert allowing.split()[1] == "allows"


def test_as_json_the_entries_are_whole(core: Registry, capsys: Capture) -> None:
    assert listed(capsys) == json.loads(json.dumps([entry.as_json() for entry in core]))


@pytest.mark.parametrize("refusal_class", RefusalClass)
def test_codes_are_filtered_by_class(refusal_class: str, core: Registry, capsys: Capture) -> None:
    wanted = [entry.code for entry in core if entry.refusal_class == refusal_class]

    assert [entry["code"] for entry in listed(capsys, "--class", refusal_class)] == wanted
    assert wanted


def test_codes_are_filtered_by_severity_surface_and_family(core: Registry, capsys: Capture) -> None:
    found = listed(capsys, "--severity", "high", "--surface", "tool_call", "--family", "guard")

    wanted = [
        entry.code
        for entry in core
        if entry.severity is Severity.HIGH
        and Surface.TOOL_CALL in entry.surfaces
        and entry.family == "guard"
    ]
    assert [entry["code"] for entry in found] == wanted
    assert 0 < len(wanted) < len(core)


def test_an_unknown_family_is_an_error_with_a_guess(capsys: Capture) -> None:
    assert main(["codes", "list", "--family", "gard"]) == 1
    assert "did you mean `guard`?" in capsys.readouterr().err


def test_a_filter_that_nothing_passes_leaves_an_empty_table(
    core: Registry, capsys: Capture
) -> None:
    assert main(["codes", "list", "--family", "runtime", "--class", "SOFT_BLOCK"]) == 0

    head, total = capsys.readouterr().out.splitlines()
    assert head.startswith("CODE")
    assert total.startswith(f"0 of {len(core)} codes")


@pytest.mark.parametrize("option", ["--class", "--surface", "--severity"])
def test_a_word_that_is_not_in_the_list_shows_the_list_in_plain_words(
    option: str, capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["codes", "list", option, "nope"])

    err = capsys.readouterr().err
    assert caught.value.code == 2
    assert "invalid choice: 'nope'" in err
    assert "<" not in err
