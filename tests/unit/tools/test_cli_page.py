import argparse

import pytest
from cli_page import (
    STATUS_MEANING,
    _LeafCommand,
    _render_command,
    generated_files,
    render_list,
    render_pages,
)

from demur.cli.main import COMMANDS, GROUPS, STATUSES

PAGES = render_pages()


def part_of(command: str) -> str:
    """Return the part of a page that is about one command."""
    [page] = [text for text in PAGES.values() if f"\n## demur {command}\n" in text]
    return page.partition(f"\n## demur {command}\n")[2].partition("\n## ")[0]


def page_of(parser: argparse.ArgumentParser) -> str:
    return _render_command(_LeafCommand("tool", parser))


def parser_with(*names: str, **options: object) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="do it")
    parser.add_argument(*names, **options)  # type: ignore[arg-type]
    return parser


def test_there_is_a_list_and_a_page_for_each_group() -> None:
    paths = [path for path, _ in generated_files()]

    assert paths[0] == "docs/reference/cli.md"
    assert set(paths[1:]) == {f"docs/reference/cli/{name}.md" for name in PAGES}
    assert set(GROUPS) < set(PAGES)


def test_every_command_is_on_one_page_and_has_a_row_that_leads_to_it() -> None:
    for command in COMMANDS:
        anchor = f"demur-{command.name.replace(' ', '-')}"
        [page] = [name for name, text in PAGES.items() if f"\n## demur {command.name}\n" in text]
        row = f"| [`demur {command.name}`](cli/{page}.md#{anchor}) | {command.summary} |"
        assert row in render_list()


@pytest.mark.parametrize("name", PAGES)
def test_each_page_begins_with_examples_that_the_tests_of_the_documentation_run(name: str) -> None:
    assert "```console\n$ " in PAGES[name].partition("\n## ")[0]


def test_the_pages_do_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    before = render_list()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")

    assert render_list() == before
    assert render_pages() == PAGES
    assert not any("\x1b" in page for page in (before, *PAGES.values()))


def test_every_exit_status_is_explained() -> None:
    assert set(STATUSES) <= set(STATUS_MEANING)
    for status, meaning in STATUS_MEANING.items():
        assert f"| {status} | {meaning} |" in render_list()


def test_one_table_lists_the_statuses_of_all_commands_that_have_their_own() -> None:
    section = render_list().partition("\n## Exit statuses\n")[2].partition("\n## ")[0]

    for command in COMMANDS:
        own = dict(command.statuses) != {0: "done", 1: "an error", 2: "usage"}
        meanings = "; ".join(f"{status} {text}" for status, text in command.statuses.items())
        row = f"#demur-{command.name.replace(' ', '-')}) | {meanings} |"
        assert (row in section) is own, command.name


def test_each_command_shows_its_example() -> None:
    for command in COMMANDS:
        assert f"Example:\n\n```text\n{command.example}\n```" in part_of(command.name)


def test_a_command_shows_how_it_is_called_and_what_its_arguments_mean() -> None:
    page = part_of("codes export")

    assert "\ndemur codes export --to FORM [--out FILE] [--registry FILE]...\n" in page
    assert "| `--out` | write to this file; default: standard output |  |" in page
    assert "--help" not in page


@pytest.mark.parametrize(
    ("nargs", "usage", "default"),
    [
        (None, "tool FILE", "required"),
        ("?", "tool [FILE]", ""),
        ("*", "tool [FILE...]", ""),
        ("+", "tool FILE...", "required"),
    ],
)
def test_a_positional_argument_shows_how_often_it_may_appear(
    nargs: str | None, usage: str, default: str
) -> None:
    page = page_of(parser_with("file", nargs=nargs, help="a file"))

    assert f"```text\n{usage}\n```" in page
    assert f"| `FILE` | a file | {default} |" in page


@pytest.mark.parametrize(
    ("options", "usage", "row"),
    [
        ({"help": "how many"}, "[--size SIZE]", "| how many |  |"),
        ({"default": 3, "help": "%(default)s or 50%%"}, "[--size SIZE]", "| 3 or 50% | `3` |"),
        ({"required": True, "metavar": "N"}, "--size N", "|  | required |"),
        ({"action": "append", "default": []}, "[--size SIZE]...", "|  |  |"),
        ({"choices": ["a", "b"]}, "[--size SIZE]", "| one of `a`, `b` |  |"),
        ({"choices": ["a"], "help": "it"}, "[--size SIZE]", "| it; one of `a` |  |"),
        ({"action": "store_true"}, "[--size]", "|  |  |"),
    ],
)
def test_an_option_shows_its_value_default_and_choices(
    options: dict[str, object], usage: str, row: str
) -> None:
    page = page_of(parser_with("-s", "--size", **options))

    assert f"tool {usage.replace('--size', '-s')}\n" in page
    assert f"| `-s`, `--size` {row}" in page


def test_a_hidden_argument_is_not_shown() -> None:
    assert "SECRET" not in page_of(parser_with("--secret", help=argparse.SUPPRESS))


@pytest.mark.parametrize(("required", "usage"), [(False, "[--a | --b B]"), (True, "(--a | --b B)")])
def test_arguments_that_exclude_each_other_stand_together(required: bool, usage: str) -> None:
    parser = argparse.ArgumentParser()
    group = parser.add_mutually_exclusive_group(required=required)
    group.add_argument("--a", action="store_true")
    group.add_argument("--b")

    assert f"\ntool {usage}\n" in page_of(parser)


def test_a_long_call_breaks_between_arguments_only() -> None:
    parser = argparse.ArgumentParser()
    for number in range(12):
        parser.add_argument(f"--option-{number}", metavar="VALUE")
    lines = page_of(parser).partition("```text\n")[2].partition("\n```")[0].splitlines()

    assert len(lines) > 1
    assert max(map(len, lines)) <= 88
    assert all(line.endswith("VALUE]") for line in lines)


def test_the_exit_status_text_of_a_command_is_kept() -> None:
    parser = argparse.ArgumentParser(description="do it", epilog="exit: 0 fine, 9 not")

    assert page_of(parser) == "## tool\n\nDo it.\n\n```text\ntool\n```\n\nExit: 0 fine, 9 not."
