import json

import pytest

from demur.cli.main import main
from demur.codes.explain import explain
from demur.codes.registry import Registry


def test_the_explanation_is_printed_as_the_package_gives_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert main(["codes", "explain", "RCE_RISK"]) == 0
    assert capsys.readouterr().out == explain("RCE_RISK") + "\n"


def test_headings_are_coloured_and_text_is_wrapped_to_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("FORCE_COLOR", "1")
    main(["codes", "explain", "STORAGE_UNAVAILABLE"])
    lines = capsys.readouterr().out.splitlines()

    assert lines[0] == "\x1b[1mSTORAGE_UNAVAILABLE: Storage unavailable\x1b[0m"
    assert "\x1b[1mFacts\x1b[0m" in lines
    assert max(len(line) for line in lines if "\x1b" not in line) <= 50


def test_json_is_the_whole_entry(capsys: pytest.CaptureFixture[str], core: Registry) -> None:
    assert main(["codes", "explain", "RCE_RISK", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(core["RCE_RISK"].as_json()))


def test_an_unknown_code_is_an_error_with_a_suggestion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["codes", "explain", "RCE_RISC"]) == 1

    shown = capsys.readouterr()
    assert shown.out == ""
    assert "unknown reason code `RCE_RISC`" in shown.err
    assert "did you mean `RCE_RISK`?" in shown.err
