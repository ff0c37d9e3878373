from pathlib import Path

import pytest

from demur.errors import InputError
from demur.integrations.claude_code.settings_file import read_settings_file, replace_settings_file


def test_a_new_file_is_made_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "settings.json"

    assert replace_settings_file(read_settings_file(path), "{}\n") is None
    assert path.read_text() == "{}\n"


def test_the_old_text_and_every_older_copy_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("one")
    path.chmod(0o640)
    first = replace_settings_file(read_settings_file(path), "two")
    second = replace_settings_file(read_settings_file(path), "three")

    assert first is not None
    assert second is not None
    assert (first.read_text(), second.read_text(), path.read_text()) == ("one", "two", "three")
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "settings.json",
        "settings.json.bak",
        "settings.json.bak1",
    ]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_text("{}")
    path = tmp_path / "settings.json"
    path.symlink_to(real)
    replace_settings_file(read_settings_file(path), "new")

    assert path.is_symlink()
    assert real.read_text() == "new"


def test_a_link_that_leads_nowhere_is_followed_there(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.symlink_to(tmp_path / "later" / "real.json")
    replace_settings_file(read_settings_file(path), "new")

    assert (tmp_path / "later" / "real.json").read_text() == "new"


def test_what_somebody_else_wrote_meanwhile_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("one")
    file = read_settings_file(path)
    path.write_text("theirs")

    with pytest.raises(InputError, match="has changed"):
        replace_settings_file(file, "two")
    assert path.read_text() == "theirs"


@pytest.mark.parametrize("content", [b"\xff", b"x" * 11])
def test_what_cannot_be_read_is_an_error(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demur.integrations.claude_code.settings_file._MAX_SETTINGS_BYTES", 10)
    path = tmp_path / "settings.json"
    path.write_bytes(content)

    with pytest.raises(InputError):
        read_settings_file(path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_settings_file(tmp_path)


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.symlink_to(path)

    with pytest.raises(InputError):
        read_settings_file(path)


def test_what_cannot_be_written_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "settings.json"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    file = read_settings_file(path)
    monkeypatch.setattr("os.fsync", full)

    with pytest.raises(InputError, match="no space left"):
        replace_settings_file(file, "{}")
    assert list(tmp_path.iterdir()) == []
