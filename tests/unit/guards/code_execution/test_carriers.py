"""Programs, options and variables that run other programs: every row does what it says."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from demur.guards.code_execution.carried_values import carrier_rows
from demur.guards.code_execution.event import Command, CommandConfig, Language
from demur.guards.code_execution.guard import check
from demur.guards.code_execution.rules import RULE_FILES
from demur.model.finding import Action

TABLE = json.loads((RULE_FILES / "carriers.json").read_text(encoding="utf-8"))
SECTIONS = ("subcommands", "options", "settings", "variables", "texts")
RUNS = {
    "shell",
    "words",
    "program",
    "library",
    "python",
    "other",
    "commas",
    "prompt",
    "config",
    "make",
    "file",
}


def held_rules(text: str) -> list[str]:
    findings = check(Command(text=text, language=Language.SHELL), CommandConfig())
    return [item.evidence["rule"] for item in findings if item.action is not Action.WARN]


def iter_rows() -> Iterator[Any]:
    for section in SECTIONS:
        for number, row in enumerate(TABLE[section]):
            name = (row.get("programs") or row["names"]).split()[0]
            yield pytest.param(row, id=f"{section} {number}: {name}")
    yield pytest.param(TABLE["operands"], id="operands")
    yield pytest.param(TABLE["guess"], id="guess")


def as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


@pytest.mark.parametrize("row", list(iter_rows()))
def test_a_row_holds_what_it_refuses_and_passes_what_it_allows(row: dict[str, Any]) -> None:
    assert as_list(row["refuse"])
    for text in as_list(row["refuse"]):
        assert held_rules(text), text
    for text in as_list(row["allow"]):
        assert held_rules(text) == [], text
    runs = row.get("runs", "shell")
    assert runs in RUNS or runs.startswith("options ")


@pytest.mark.parametrize("program", list(TABLE["prefixes"]))
def test_a_command_behind_a_prefix_is_judged(program: str) -> None:
    operands = "1 " * TABLE["prefixes"][program].get("skip", 0)
    options = [f"{option} 1" for option in TABLE["prefixes"][program].get("valued", ())]
    for option in ["", "-- " * (not operands), *(f"{option} " for option in options)]:
        assert held_rules(f"{program} {option}{operands}rm -rf /"), option
    quiet = {"pkexec", "nsenter", "exec"}
    if program not in quiet:
        assert held_rules(f"{program} {operands}ls -l") == []


@pytest.mark.parametrize(
    "text",
    [
        "bash -euo pipefail -c 'rm -rf /'",
        "bash -ceu 'rm -rf /'",
        "bash -c -e 'rm -rf /'",
        "bash -co pipefail 'rm -rf /'",
        "sh -c -- 'rm -rf /'",
        "start-stop-daemon --start --exec /bin/rm -- -rf /",
        "echo / | parallel rm -rf",
        "parallel 'rm -rf {}' ::: /",
        "echo 'rm -rf /' | xargs -I{} sh -c {}",
        "echo 'rm -rf /' | sed e",
        "printf 'rm -rf /' > hook; GIT_PAGER=./hook git log",
        "vim -c ':!/bin/sh'",
        "ssh -o ProxyCommand=';sh 0<&2 1>&2' host",
        "tar xf a.tar --to-command=/bin/sh",
        "LD_PRELOAD=./x.so ls",
        "coproc dd if=/dev/zero of=/dev/sda",
        "bash -c 'sh -c \"$1\"' _ 'rm -rf /'",
        "sh -c 'exec sh -c \"$0\"' 'rm -rf /'",
        "printf '%s\\0' -rf / | xargs -0 rm",
        "echo -rf / > items; xargs -a items rm",
        "k='a[$(rm -rf /)]'; (( k ))",
        "awk -v c='rm -rf /' 'BEGIN{system(c)}'",
        "awk '{system($0)}' <<< 'rm -rf /'",
        "echo 'rm -rf /' | sed 's/^//e'",
        "c='!rm -rf /' git --config-env=alias.x=c x",
        "mkdir h; echo 'rm -rf /' > h/pre-commit; git -c core.hooksPath=h commit",
        "mkdir d; echo 'rm -rf /' > d/a; run-parts d",
        "node -r child_process -e 'child_process.execSync(\"rm -rf /\")'",
        "echo 'BEGIN{system(\"rm -rf /\")}' > x.awk; awk -f x.awk",
        "PAGER=/bin/sh man ls",
        "awk 'BEGIN {system(\"/bin/sh\")}'",
        "find . -exec /bin/sh ';' -quit",
        "git clone 'ext::sh -c id'",
        "GIT_ASKPASS=/tmp/x git fetch",
    ],
)
def test_a_command_inside_another_is_judged(text: str) -> None:
    assert held_rules(text)


@pytest.mark.parametrize(
    "text",
    [
        "bash -euo pipefail -c 'make test'",
        "env bash",
        "script -c bash log",
        "xterm -e bash",
        "find . -name '*.sh' -exec bash -n {} ';'",
        "ssh -o ProxyCommand='nc -x proxy:1080 %h %p' host",
        "PYTHONSTARTUP=~/.pythonrc python",
        "LD_PRELOAD=/usr/lib/libjemalloc.so ./server",
        "docker exec -it web bash",
        "nice -n 5 bash",
        "git commit -m 'rm -rf / was a joke'",
        "git push -u origin main",
        "git clean -x -n",
        "ssh host",
        "kubectl exec -it pod -- sh",
        "tmux new -s work bash",
        "xargs -n 1 echo < list",
        "GIT_SSH=/usr/bin/ssh git fetch",
    ],
)
def test_ordinary_carriers_pass(text: str) -> None:
    assert held_rules(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "echo 'rm -rf /' | xargs -L1 env",
        "echo \"'rm' -rf /\" | xargs env",
        "printf 'a\\nrm -rf /\\n' | xargs -L 1 env",
        "env 'BASH_FUNC_f%%=() { rm -rf /; }' bash -c f",
        "printf 'f() {\\nrm -rf /\\n}; f' | xargs -0 bash -c",
        "history -s 'rm -rf /'; fc -s rm",
        "env A='rm -rf /' sh -c '$A'",
        "sudo A=/ sh -c 'rm -rf $A'",
        "let 'a=b[$(\"$(echo rm)\" -rf /)]'",
    ],
)
def test_input_and_environment_reach_an_inner_command(text: str) -> None:
    assert "DELETE_ROOT" in held_rules(text)


def test_text_that_sed_changes_and_runs_is_a_question() -> None:
    assert held_rules("sed -n 's/x//;p;e' a") == ["INPUT_UNKNOWN"]
    assert held_rules("sed -e 's/e/;e/' -e '/e/d' a") == []


def test_a_started_file_may_write_another_one() -> None:
    text = "mkdir a; echo 'echo x > a/c' > a/b; run-parts a"

    assert held_rules(text) == []


def test_a_guess_is_a_question() -> None:
    event = Command(text="some-runner rm -rf /", language=Language.SHELL)
    (finding,) = check(event, CommandConfig())
    assert finding.action is Action.ESCALATE
    assert finding.evidence["via"] == "some-runner"


def test_a_row_is_found_by_each_of_its_programs() -> None:
    for section in SECTIONS:
        for row in TABLE[section]:
            for name in (row.get("programs") or row["names"]).split():
                assert row in carrier_rows(section)[name]
