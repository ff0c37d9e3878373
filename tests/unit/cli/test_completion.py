import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_line import demur

from demur.cli.completion import list_candidates

BASH = shutil.which("bash")


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (["aud"], ["audit"]),
        (["audit", "ver"], ["verify"]),
        (["audit", ""], ["anchor", "checkpoint", "erase", "heads", "report", "retire", "verify"]),
        (["nope", ""], []),
        (["show", "--ten"], ["--tenant"]),
        (["show", "--m"], ["--min-amount", "--max-amount"]),
        (["show", "--verdict", ""], ["ALLOW", "ESCALATE", "ABSTAIN", "DENY"]),
        (["show", "--verdict", "d"], ["DENY"]),
        (["show", "--code", "rce"], ["RCE_RISK"]),
        (["show", "--json", "--ver"], ["--verdict"]),
        (["classify", "DENY", "RCE_"], ["RCE_RISK"]),
        (["respond", "rce"], ["RCE_RISK"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        # A file may stand here, and the shell completes it.
        (["replay", ""], []),
        (["show", "--config", ""], []),
    ],
)
def test_the_words_that_fit_are_listed(words: list[str], candidates: list[str]) -> None:
    assert list_candidates(words) == candidates


def test_only_the_shell_is_required() -> None:
    ran = demur("completion")

    assert ran.status == 2
    assert ran.err.startswith("error: the following arguments are required: SHELL\n")


def test_the_command_prints_the_words_even_if_they_look_like_options() -> None:
    assert demur("completion", "bash", "words", "show", "--ten").out == "--tenant\n"
    assert demur("completion", "zsh", "words", "show", "--help").out == "--help\n"
    assert demur("completion", "fish", "words", "codes", "").out.splitlines()[0] == "diff"


def test_codes_of_an_organisation_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = tmp_path / "acme.json"
    words = "--parent SCOPE_MISSING --description Own."
    assert demur("codes", "new", "acme.com/OWN", "--registry", registry, *words.split()).status == 0
    monkeypatch.setenv("DEMUR_REGISTRY", str(registry))

    assert list_candidates(["show", "--code", "acme"]) == ["acme.com/OWN"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    ran = demur("completion", shell)

    assert ran.status == 0
    assert f"completion {shell} words " in ran.out
    assert not ran.out.startswith(" ")


@pytest.mark.skipif(BASH is None, reason="needs bash")
def test_bash_completes_by_its_script(tmp_path: Path) -> None:
    command = tmp_path / "demur"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m demur "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    script = demur("completion", "bash").out + (
        f"COMP_WORDS=({command} audit ve); COMP_CWORD=2; _demur\n"
        'printf "%s " "${COMPREPLY[@]}"\n'
        'COMP_WORDS[2]=""; _demur\n'
        'printf "%s " "${#COMPREPLY[@]}"\n'
    )

    ran = subprocess.run([str(BASH), "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "verify 7 "
