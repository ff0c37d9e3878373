from pathlib import Path

import pytest

from demur.evals import suite_lines
from demur.evals.suite_lines import open_lines, read_file
from demur.evals.suite_row import SuiteError


def write(folder: Path, raw: bytes) -> Path:
    path = folder / "suite.jsonl"
    path.write_bytes(raw)
    return path


def test_lines_come_one_by_one_without_the_byte_order_mark(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbfa\nb\xc3\xa9")

    assert list(open_lines(path)) == ["a\n", "bé"]


def test_a_line_in_another_encoding_keeps_its_bytes_escaped(tmp_path: Path) -> None:
    assert list(open_lines(write(tmp_path, b"a\ncaf\xe9\nb"))) == ["a\n", "caf\udce9\n", "b"]


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("a,b\n".encode("utf-16"), "UTF-16"),
        (b"\xfe\xff" + "a".encode("utf-16-be"), "UTF-16"),
        ("prompt,label\n".encode("utf-16-le"), "UTF-16"),
        ("prompt".encode("utf-32"), "UTF-32"),
    ],
)
def test_a_file_in_a_wide_encoding_is_refused_with_the_way_out(
    tmp_path: Path, raw: bytes, name: str
) -> None:
    path = write(tmp_path, raw)
    for read in (lambda: list(open_lines(path)), lambda: read_file(path)):
        with pytest.raises(SuiteError) as caught:
            read()

        assert caught.value.problem == f"the file is {name}, not UTF-8"
        assert caught.value.help == f"convert it to UTF-8: `iconv -f {name} -t UTF-8 FILE`"


def test_a_single_nul_is_no_encoding(tmp_path: Path) -> None:
    assert list(open_lines(write(tmp_path, b"some text\x00 goes on\n"))) == [
        "some text\x00 goes on\n"
    ]


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite_lines, "MAX_LINE_BYTES", 10)
    path = write(tmp_path, b"short\n" + b"x" * 11)
    with pytest.raises(SuiteError) as caught:
        list(open_lines(path))

    assert caught.value.where == f"{path}:2"


def test_a_whole_file_names_the_line_that_is_not_utf8(tmp_path: Path) -> None:
    path = write(tmp_path, b"a\nb\ncaf\xe9\n")
    with pytest.raises(SuiteError) as caught:
        read_file(path)

    assert caught.value.where == f"{path}:3"
    assert "iconv -f LATIN1" in str(caught.value.help)


def test_a_whole_file_has_a_size_limit(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="larger than"):
        read_file(write(tmp_path, b"abcd"), max_bytes=3)


@pytest.mark.parametrize("name", ["missing.jsonl", "nul\x00.jsonl"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for read in (lambda: list(open_lines(path)), lambda: read_file(path)):
        with pytest.raises(SuiteError) as caught:
            read()

        assert caught.value.problem.startswith("cannot read the suite: ")
        assert caught.value.where == str(path)
