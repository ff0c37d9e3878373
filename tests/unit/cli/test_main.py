import io
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from support.command_line import demur

from demur.cli.main import COMMANDS, GROUPS, SECTIONS, build_parser, main, run

FULL = Path("/dev/full")
Capture = pytest.CaptureFixture[str]


def test_without_a_command_the_help_is_shown_as_a_usage_error(capsys: Capture) -> None:
    assert main([]) == 2

    out = capsys.readouterr().out
    assert out.startswith("usage: demur")
    assert "exit: 0 allowed, 1 error, 2 usage, 3 refused, 4 needs something" in out


@pytest.mark.parametrize("words", [["nope"], ["codes"], ["codes", "nope"], ["format"], ["--nope"]])
def test_a_command_that_does_not_exist_or_lacks_its_arguments_is_a_usage_error(
    words: list[str],
) -> None:
    ran = demur(*words)

    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert "  help: " in ran.err


@pytest.mark.parametrize(
    ("words", "problem", "help_text"),
    [
        ("shw", "unknown command `shw`", "did you mean `show`?"),
        (
            "verify",
            "unknown command `verify`",
            "did you mean `demur audit verify` or `demur grant verify`?",
        ),
        ("audit verfy", "unknown command `verfy`", "did you mean `verify`?"),
        ("qqq", "unknown command `qqq`", "`demur --help` lists the commands"),
        (
            "audit",
            "`demur audit` needs a command",
            "one of verify, heads, checkpoint, anchor, erase, report, retire",
        ),
        ("show --tenent=x", "unknown option `--tenent`", "did you mean `--tenant`?"),
        ("show --qqq", "unknown option `--qqq`", "`demur show --help` shows the options"),
        ("explain last again", "unexpected argument `again`", "see `demur explain --help`"),
        ("show --verdict DNEY", "unknown value `DNEY` of --verdict", "did you mean `DENY`?"),
        ("classify NO", "unknown value `NO` of verdict", "one of ALLOW, ESCALATE, ABSTAIN, DENY"),
        (
            "show --last x",
            "argument --last: invalid int value: 'x'",
            "`demur show --help` shows the arguments",
        ),
    ],
)
def test_a_mistyped_word_is_answered_with_the_likely_one(
    words: str, problem: str, help_text: str
) -> None:
    assert demur(*words.split()) == (2, "", f"error: {problem}\n  help: {help_text}\n")


@pytest.mark.parametrize(
    "words",
    [
        "export",
        "forget",
        "mcp proxy",
        "serve --port 99999",
        "eval run --target guard",
        "eval suites bultin",
        "triage . --fail-over RCE>0",
        "lint refusal --code RCE",
        "respond rce",
        "keys create --role read",
        "audit verify --from 0",
        "monitor --hours 0",
        "show --last 0",
        "diff --policy p --limit -1",
        "grant create approval --key k --to a --scope x",
        "codes list --family gard",
        "alerts check --retries 99",
    ],
)
@pytest.mark.usefixtures("workspace")
def test_a_wrong_command_line_ends_with_2_in_every_command(words: str) -> None:
    ran = demur(*words.split())

    assert (ran.status, ran.out) == (2, ""), ran.err
    assert ran.err.startswith("error: ")


@pytest.mark.parametrize("verdict", ["DENY", "deny", "Deny"])
def test_upper_and_lower_case_of_a_choice_do_not_matter(verdict: str) -> None:
    ran = demur("classify", verdict, "RCE_RISK", "--json")

    assert ran.status == 3
    assert '"verdict":"DENY"' in ran.out


def test_an_error_in_an_option_is_a_usage_error() -> None:
    ran = demur("respond", "RCE_RISK", "--slot", "nothing")

    assert ran.status == 2
    assert ran.err.startswith("error: --slot: `nothing` is not NAME=VALUE")


def test_the_version_is_that_of_the_package(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])

    assert caught.value.code == 0
    assert capsys.readouterr().out == f"demur {version('demur')}\n"


def test_main_reads_the_arguments_of_the_process_by_default(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("sys.argv", ["demur", "format", "RCE_RISK", "x"])

    assert main() == 0
    assert capsys.readouterr().out == "REFUSED: RCE_RISK: x\n"


def test_every_problem_is_reported_with_its_place_and_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    path = tmp_path / "acme.json"
    path.write_text('{"schema_version": "reason_codes.v1", "verson": "1.0.0", "codes": 7}')
    monkeypatch.setenv("DEMUR_REGISTRY", str(path))

    assert main(["codes", "list"]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"error: {path}: verson: unknown field",
        "  help: did you mean `version`?",
        f"error: {path}: version: must be a version like `1.0.0`, not `null`",
        f"error: {path}: codes: must be a list of entries, not `7`",
        f"error: {path}: domain: an organisation's registry needs a domain",
        '  help: add `"domain": "example.com"`, a name you own, and write codes under it',
    ]


def test_control_characters_in_an_error_are_escaped(capsys: Capture) -> None:
    assert main(["format", "NO\nPE\x1b[2J"]) == 2

    first, *_ = capsys.readouterr().err.splitlines()
    assert first == "error: unknown code `NO\\nPE\\x1b[2J`"


def test_the_error_is_painted_for_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")

    assert main(["format", "NOPE_NOPE"]) == 2
    assert capsys.readouterr().err.startswith("\x1b[1;31merror:\x1b[0m unknown code")


def test_an_interrupt_ends_it_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(args: object) -> int:
        del args
        raise KeyboardInterrupt

    monkeypatch.setattr("demur.cli.start.run_demo", interrupted)

    assert main(["demo"]) == 130


def test_a_reader_that_goes_away_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr("sys.stdout", stream)

        assert main(["format", "RCE_RISK", "x"]) == 141


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_a_full_disk_is_reported_without_a_traceback() -> None:
    with FULL.open("w") as stream:
        ran = subprocess.run(
            [sys.executable, "-m", "demur", "format", "RCE_RISK", "x"],
            stdout=stream,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert (ran.returncode, ran.stderr) == (1, "error: output: no space left on device\n")


def test_running_exits_with_the_status(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("sys.argv", ["demur", "parse", "--check", "--text", "REFUSED: RCE_RISK: x"])

    with pytest.raises(SystemExit) as caught:
        run()

    assert caught.value.code == 3
    assert capsys.readouterr().out == "REFUSED: RCE_RISK: x\n"


def test_a_console_that_lacks_a_character_shows_its_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    console = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(console, encoding="ascii"))
    monkeypatch.setattr("sys.argv", ["demur", "format", "RCE_RISK", "löschen"])

    with pytest.raises(SystemExit) as caught:
        run()

    assert caught.value.code == 0
    assert console.getvalue() == b"REFUSED: RCE_RISK: l\\xf6schen\n"


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demur", "parse", "--check", "--text", "REFUSED: RCE_RISK: x"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (3, "REFUSED: RCE_RISK: x\n", "")


def test_a_process_whose_reader_goes_away_ends_quietly() -> None:
    command = [sys.executable, "-m", "demur", "codes", "list", "--json"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1) == b"["
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_the_help_lists_every_command_and_group_by_section(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        main(["--help"])

    lines = capsys.readouterr().out.splitlines()
    assert caught.value.code == 0
    summaries = {**{command.name: command.summary for command in COMMANDS}, **GROUPS}
    for title, names in SECTIONS.items():
        start = lines.index(f"{title}:") + 1
        shown = [line.split(maxsplit=1) for line in lines[start : start + len(names)]]
        assert shown == [[name, summaries[name]] for name in names]
    assert max(map(len, lines)) <= 80


def test_each_command_is_in_one_section_of_the_help() -> None:
    listed = [name for names in SECTIONS.values() for name in names]

    assert len(set(listed)) == len(listed)
    assert set(listed) == {command.name.split()[0] for command in COMMANDS}


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_command_explains_itself(name: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*name.split(), "--help"])

    out = capsys.readouterr().out
    command = next(command for command in COMMANDS if command.name == name)
    assert caught.value.code == 0
    assert out.startswith(f"usage: demur {name} ")
    assert out.endswith(f"\nexample:\n  {command.example}\n")
    assert "\nexit: 0 " in out


def test_command_names_are_unique_and_their_groups_exist() -> None:
    names = [command.name for command in COMMANDS]

    assert len(set(names)) == len(names)
    assert {name.split()[0] for name in names if " " in name} == set(GROUPS)


def test_the_help_loads_neither_msgspec_nor_the_registry() -> None:
    script = (
        "import sys; from demur.cli.main import build_parser;"
        "build_parser([]).format_help();"
        "sys.exit(bool({'msgspec', 'yaml', 'demur.codes.registry'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_only_the_chosen_command_gets_its_arguments() -> None:
    everything = build_parser()
    one = build_parser(["format", "RCE_RISK"])

    assert "run" in everything.parse_args(["parse", "--check", "x"])
    assert "run" in one.parse_args(["format", "RCE_RISK"])
    assert "run" not in one.parse_args(["parse"])
