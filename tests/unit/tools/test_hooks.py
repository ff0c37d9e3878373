"""The hook and the action that lint codes elsewhere: what they run, run as they would run it."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
SCRIPTS = Path(sys.executable).parent
WRONG = 'from demur import Refusal\n\nRefusal.from_code("RCE_RISC")\n'
BROAD = "reason_code: POLICY_VIOLATION\n"
FOUND = "unknown reason code `RCE_RISC`"


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def run(words: list[str], cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    path = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, "PATH": path, "NO_COLOR": "1", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def shown(start: str) -> Any:
    """Return the YAML block of the how-to page that begins so."""
    page = (ROOT / "docs/how-to/lint-codes.md").read_text(encoding="utf-8")
    [block] = re.findall(rf"```yaml\n({start}.*?)```", page, re.DOTALL)
    return yaml.safe_load(block)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    (tmp_path / "a b.py").write_text(WRONG, encoding="utf-8")
    (tmp_path / "broad.yaml").write_text(BROAD, encoding="utf-8")
    return tmp_path


# -- the hook of pre-commit ------------------------------------------------------------------


def test_the_hook_is_installed_from_here_and_looks_at_what_the_command_reads() -> None:
    [hook] = read(".pre-commit-hooks.yaml")

    assert hook["id"] == "demur-codes-lint"
    assert hook["language"] == "python"
    assert hook["types_or"] == ["python", "yaml"]
    assert hook.get("pass_filenames", True)


@pytest.mark.parametrize(
    ("more", "file", "status"),
    [
        ([], "a b.py", 1),
        ([], "broad.yaml", 0),
        (["--strict"], "broad.yaml", 1),
    ],
)
def test_the_command_of_the_hook_takes_arguments_and_then_file_names(
    sources: Path, more: list[str], file: str, status: int
) -> None:
    [hook] = read(".pre-commit-hooks.yaml")

    ran = run([*shlex.split(hook["entry"]), *more, file], sources)

    assert ran.returncode == status
    assert (FOUND in ran.stdout) is (file == "a b.py")


def test_the_page_shows_a_hook_and_arguments_that_exist(sources: Path, acme_text: Any) -> None:
    [hook] = read(".pre-commit-hooks.yaml")
    [[used]] = [repo["hooks"] for repo in shown("repos:")["repos"]]
    (sources / "codes.json").write_text(acme_text({"code": "acme.com/KYC_EXPIRED"}))

    assert used["id"] == hook["id"]
    ran = run([*shlex.split(hook["entry"]), *used["args"], "broad.yaml"], sources)
    assert (ran.returncode, ran.stderr) == (1, "")


# -- the action ------------------------------------------------------------------------------


def step(name: str) -> Any:
    return next(one for one in read("action.yml")["runs"]["steps"] if one["id"] == name)


def lint(cwd: Path, **given: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """Return how the lint step ends, and what it hands to later steps."""
    action = read("action.yml")
    inputs = {name: one["default"] for name, one in action["inputs"].items()} | given
    env = {
        name: inputs[re.sub(r"\$\{\{ inputs\.(\w+) }}", r"\1", value)]
        for name, value in step("lint")["env"].items()
        if "inputs." in value
    }
    handed = cwd / ".handed"
    handed.touch()
    # As a runner calls what has `shell: bash`.
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step("lint")["run"]]
    ran = run(words, cwd, DEMUR=str(SCRIPTS / "demur"), GITHUB_OUTPUT=str(handed), **env)
    return ran, handed.read_text(encoding="utf-8")


def test_no_input_is_part_of_a_script() -> None:
    steps = read("action.yml")["runs"]["steps"]

    assert [one["shell"] for one in steps] == ["bash", "bash"]
    assert not [one["id"] for one in steps if "${{" in one["run"]]


def test_every_input_is_used_and_every_used_one_is_declared() -> None:
    action = read("action.yml")
    used = {
        name
        for one in action["runs"]["steps"]
        for value in one["env"].values()
        for name in re.findall(r"inputs\.(\w+)", value)
    }

    assert used == set(action["inputs"])
    assert all(isinstance(one["default"], str) for one in action["inputs"].values())


def test_the_page_shows_every_input_and_no_other() -> None:
    action = read("action.yml")
    steps = shown("jobs:")["jobs"]["codes"]["steps"]
    [used] = [one for one in steps if "/demur@" in one["uses"]]
    page = (ROOT / "docs/how-to/lint-codes.md").read_text(encoding="utf-8")
    table = page.partition("| input | means |")[2]

    assert set(used["with"]) <= set(action["inputs"])
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(action["inputs"])
    assert [one["with"]["sarif_file"] for one in steps if "sarif_file" in one.get("with", {})] == [
        f"${{{{ steps.{used['id']}.outputs.{name} }}}}" for name in action["outputs"]
    ]


def test_an_unregistered_code_fails_the_job_and_is_in_its_log(sources: Path) -> None:
    ran, handed = lint(sources)

    assert ran.returncode == 1
    assert f"a b.py:3:19: error[unregistered-code] {FOUND}" in ran.stdout
    assert handed == ""


def test_only_the_named_paths_are_linted(sources: Path) -> None:
    assert lint(sources, paths="broad.yaml\n")[0].returncode == 0
    assert lint(sources, paths="broad.yaml\na b.py\n")[0].returncode == 1
    assert lint(sources, paths="broad.yaml", strict="true")[0].returncode == 1


def test_a_sarif_log_is_written_and_its_place_handed_on(sources: Path) -> None:
    ran, handed = lint(sources, sarif="codes.sarif")

    assert ran.returncode == 1
    assert handed == "sarif=codes.sarif\n"
    [found] = [
        one
        for one in json.loads((sources / "codes.sarif").read_text())["runs"][0]["results"]
        if one["level"] == "error"
    ]
    assert found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%20b.py"


def test_a_registry_that_cannot_be_read_fails_the_job_and_hands_on_no_log(sources: Path) -> None:
    ran, handed = lint(sources, registries="missing.json", sarif="codes.sarif")

    assert ran.returncode == 1
    assert "missing.json: cannot read the registry" in ran.stderr
    assert handed == ""


def test_an_organisations_codes_are_known(sources: Path, acme_text: Any) -> None:
    (sources / "own codes.json").write_text(acme_text({"code": "acme.com/KYC_EXPIRED"}))
    (sources / "own.yaml").write_text("reason_code: acme.com/KYC_EXPIRED\n")

    assert lint(sources, paths="own.yaml")[0].returncode == 1
    assert lint(sources, paths="own.yaml", registries="own codes.json\n")[0].returncode == 0


@pytest.mark.parametrize("name", ["paths", "registries", "strict", "sarif"])
def test_an_input_value_is_never_executed(sources: Path, name: str) -> None:
    lint(sources, **{name: '$(touch ran) `touch ran` "; touch ran; echo "\n--help'})

    assert not (sources / "ran").exists()


def test_a_line_break_in_an_input_hands_on_nothing_more(sources: Path) -> None:
    _, handed = lint(sources, sarif="codes.sarif\nother=1")

    assert handed == "sarif=codes.sarif\n"


def test_demur_is_installed_apart_from_the_commit_that_the_workflow_names(tmp_path: Path) -> None:
    # An interpreter that makes the environment and says what it was asked: no network here.
    fake = tmp_path / "python x"
    fake.write_text(
        '#!/bin/bash\necho "$@" >> "$RUNNER_TEMP/asked"\n'
        'if [[ "$3" == venv ]]; then mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; fi\n',
        encoding="utf-8",
    )
    fake.chmod(0o755)
    handed = tmp_path / "handed"
    place = tmp_path / "demur-codes-lint"

    ran = run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step("install")["run"]],
        tmp_path,
        PYTHON=str(fake),
        RUNNER_TEMP=str(tmp_path),
        GITHUB_ACTION_PATH=str(ROOT),
        GITHUB_OUTPUT=str(handed),
    )

    assert ran.returncode == 0, ran.stderr
    assert handed.read_text(encoding="utf-8") == f"demur={place}/bin/demur\n"
    made, installed = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert made == f"-I -m venv {place}"
    assert installed.startswith("-I -m pip install ")
    assert installed.endswith(f" {ROOT}")
