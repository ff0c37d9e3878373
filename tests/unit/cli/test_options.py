import io
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.command_line import demur

from demur.cli.main import main
from demur.cli.options import (
    parse_period,
    parse_time,
    prefix_errors,
    read_requests,
    write_file,
)
from demur.errors import InputError
from demur.store.backend import StorageError

NOON = datetime(2027, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "length"),
    [("30m", timedelta(minutes=30)), ("8h", timedelta(hours=8)), ("10000d", timedelta(10_000))],
)
def test_a_period_is_a_number_and_a_unit(text: str, length: timedelta) -> None:
    assert parse_period(text) == length


@pytest.mark.parametrize("text", ["", "m", "8", "8y", "-1d", "1.5h", "0d", "10001d", "٣d"])
def test_anything_else_is_no_period(text: str) -> None:
    with pytest.raises(InputError, match="is not a period"):
        parse_period(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2027-01-30", datetime(2027, 1, 30, tzinfo=UTC)),
        ("2027-01-30T10:00", datetime(2027, 1, 30, 10, tzinfo=UTC)),
        ("2027-01-30T10:00+02:00", datetime(2027, 1, 30, 8, tzinfo=UTC)),
        ("2027-01-30T10:00Z", datetime(2027, 1, 30, 10, tzinfo=UTC)),
        ("7d", NOON - timedelta(days=7)),
        ("2w", NOON - timedelta(days=14)),
        ("today", NOON.replace(hour=0)),
        ("Yesterday", NOON.replace(hour=0) - timedelta(days=1)),
    ],
)
def test_a_moment_is_a_day_a_time_or_how_long_ago(text: str, wanted: datetime) -> None:
    assert parse_time(text, NOON) == wanted


@pytest.mark.parametrize("text", ["", "soon", "2027-13-01", "0001-01-01T00:00+23:00", "d"])
def test_anything_else_is_no_time(text: str) -> None:
    with pytest.raises(InputError, match="is not a time"):
        parse_time(text, NOON)


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_file(path, "one\n")
    write_file(path, "two\n")

    assert path.read_bytes() == b"two\n"


def test_a_new_file_never_replaces_another(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_file(path, "one\n", new="name another")

    with pytest.raises(InputError) as caught:
        write_file(path, "two\n", new="name another")
    assert (caught.value.where, caught.value.help) == (str(path), "name another")
    assert path.read_bytes() == b"one\n"


@pytest.mark.parametrize("name", ["gone/a.txt", "a\x00b"])
def test_a_file_that_cannot_be_written_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write: ") as caught:
        write_file(tmp_path / name, "")
    assert caught.value.where == str(tmp_path / name)


def read(text: str | bytes, folder: Path) -> object:
    path = folder / "r.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_requests(str(path))


def test_one_object_is_one_request(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text('\N{BYTE ORDER MARK}{\n "a": 1}\n', encoding="utf-8")

    assert read_requests(str(path)) == (False, ((str(path), {"a": 1}),))


def test_a_list_numbers_its_requests(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text('[{"a": 1}, 2]', encoding="utf-8")

    assert read_requests(str(path)) == (True, ((f"{path}[0]", {"a": 1}), (f"{path}[1]", 2)))


def test_lines_are_numbered_as_an_editor_does(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}\n', encoding="utf-8")

    assert read_requests(str(path)) == (True, ((f"{path}:1", {"a": 1}), (f"{path}:3", {"a": 2})))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "r.json: there is no request in it"),
        (" \n", "r.json: there is no request in it"),
        ('{"a":\n 1,}', "r.json:2:4: not JSON: "),
        ("{'a': 1}\n{'a': 2}", "r.json:1:2: not JSON: "),
        ('{"a": 1}\n{"a": }', "r.json:2:7: not JSON: expecting value"),
        ('{"a": 1, "a": 2}', "r.json: duplicate key `a` in one object"),
        ('{"a": 1}\n{"b": {"a": 1, "a": 2}}', "r.json:2: duplicate key `a` in one object"),
        ("[" * 100_000, "r.json: not readable JSON: nested too deeply"),
        ("[" * 100_000 + "\n1", "r.json: not readable JSON: nested too deeply"),
        (b'{"a": "\xff"}', "r.json: not UTF-8, from byte 7 on"),
    ],
)
def test_an_invalid_request_is_an_error_with_its_place(
    text: str | bytes, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        read(text, tmp_path)

    assert problem in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the request: no such file") as caught:
        read_requests(str(tmp_path / "gone.json"))
    assert caught.value.help == "name a file, or `-` for standard input"
    with pytest.raises(InputError, match="cannot read the request: embedded null byte"):
        read_requests("a\x00b")


class Keyboard(io.TextIOWrapper):
    """Standard input at a terminal."""

    def isatty(self) -> bool:
        """Return true, as a terminal does."""
        return True


def test_typing_a_request_shows_how_to_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    err = io.StringIO()
    monkeypatch.setattr(sys, "stdin", Keyboard(io.BytesIO(b"{}")))
    monkeypatch.setattr(sys, "stderr", err)

    assert read_requests("-") == (False, (("standard input", {}),))
    assert err.getvalue() == "reading the request from the keyboard; end with Ctrl-D\n"


@pytest.mark.parametrize("command", ["parse", "normalize", "detect", "emit problem", "decide"])
def test_each_command_that_reads_the_keyboard_says_so(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Keyboard(io.BytesIO(b"REFUSED: RCE_RISK: x")))
    main(command.split())

    first, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith("reading ")
    assert first.endswith(" from the keyboard; end with Ctrl-D")


def test_an_error_that_is_not_about_the_request_is_left_alone() -> None:
    with pytest.raises(StorageError), prefix_errors("r.json"):
        raise StorageError("no room")


def test_an_error_without_a_place_gets_the_request_s() -> None:
    with pytest.raises(InputError) as caught, prefix_errors("r.json"):
        raise InputError("no", help="yes")

    assert (caught.value.where, caught.value.help) == ("r.json", "yes")


@pytest.mark.usefixtures("workspace")
def test_a_broken_request_is_an_error_of_the_command() -> None:
    ran = demur("decide", stdin='{"action": ')

    assert (ran.status, ran.out) == (1, "")
    assert "error: standard input:1:12: not JSON: expecting value\n" in ran.err
