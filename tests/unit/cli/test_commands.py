import pytest

from demur.cli.commands import COMMANDS, GROUPS, build_parser
from demur.cli.main import main

Capture = pytest.CaptureFixture[str]


def test_the_help_names_every_command_and_group(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])

    out = capsys.readouterr().out
    assert caught.value.code == 0
    for command in COMMANDS:
        assert command.name.split()[0] in out
    for summary in GROUPS.values():
        assert summary in out


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_command_explains_itself(name: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*name.split(), "--help"])

    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: demur {name} ")


def test_command_names_are_unique_and_their_groups_exist() -> None:
    names = [command.name for command in COMMANDS]

    assert len(set(names)) == len(names)
    assert {name.split()[0] for name in names if " " in name} == set(GROUPS)


def test_only_the_chosen_command_is_given_its_arguments() -> None:
    everything = build_parser()
    one = build_parser(["format", "RCE_RISK"])

    assert "run" in everything.parse_args(["parse", "--check", "x"])
    assert "run" in one.parse_args(["format", "RCE_RISK"])
    assert "run" not in one.parse_args(["parse"])
