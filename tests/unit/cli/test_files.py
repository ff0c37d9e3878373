from pathlib import Path

import pytest

from demur.cli.files import write_file, write_new_file
from demur.errors import InputError


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_file(path, "one\n")
    write_file(path, "two\n")

    assert path.read_bytes() == b"two\n"


def test_a_new_file_never_replaces_another(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_new_file(path, "one\n", help_text="name another")

    with pytest.raises(InputError) as caught:
        write_new_file(path, "two\n", help_text="name another")
    assert (caught.value.where, caught.value.help) == (str(path), "name another")
    assert path.read_bytes() == b"one\n"


@pytest.mark.parametrize("name", ["gone/a.txt", "a\x00b"])
def test_what_cannot_be_written_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write: ") as caught:
        write_file(tmp_path / name, "")
    assert caught.value.where == str(tmp_path / name)
