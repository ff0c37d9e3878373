import os
from pathlib import Path

import pytest

from demur.errors import InputError
from demur.guards.skill.folder import SkillLimits, read_skill


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a small skill."""
    root = tmp_path / "skill"
    (root / "scripts").mkdir(parents=True)
    (root / "SKILL.md").write_text("# Skill\n", encoding="utf-8")
    (root / "scripts/run.py").write_text("x = 1\n", encoding="utf-8")
    return root


def test_files_are_read_by_their_path_below_the_folder(folder: Path) -> None:
    skill = read_skill(folder)

    assert dict(skill.files) == {"SKILL.md": b"# Skill\n", "scripts/run.py": b"x = 1\n"}
    assert skill.name == "skill"
    assert skill.omitted == {}


def test_a_single_file_is_a_skill_too(folder: Path) -> None:
    assert list(read_skill(folder / "SKILL.md").files) == ["SKILL.md"]


def test_links_are_followed_within_the_folder_and_never_out_of_it(folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s", encoding="utf-8")
    (folder / "inside.sh").symlink_to("scripts/run.py")
    (folder / "within").symlink_to("scripts")
    (folder / "file-out").symlink_to(outside / "secret")
    (folder / "folder-out").symlink_to(outside)
    (folder / "dangling").symlink_to("nowhere")
    skill = read_skill(folder)

    assert skill.files["inside.sh"] == b"x = 1\n"
    assert set(skill.omitted) == {"file-out", "folder-out", "dangling"}
    assert b"s" not in skill.files.values()


def test_files_over_a_limit_are_named(folder: Path) -> None:
    assert read_skill(folder, SkillLimits(files=1)).omitted == {
        "scripts/run.py": "more than 1 files"
    }
    assert read_skill(folder, SkillLimits(file_bytes=7)).omitted == {
        "SKILL.md": "larger than 7 bytes"
    }
    assert read_skill(folder, SkillLimits(total_bytes=9)).omitted == {
        "scripts/run.py": "more than 9 bytes in all"
    }


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe")

    assert read_skill(folder).omitted == {"pipe": "not a regular file"}


def test_of_gits_own_records_only_hooks_are_read(folder: Path) -> None:
    hooks = folder / ".git/hooks"
    hooks.mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref", encoding="utf-8")
    (folder / ".git/objects").mkdir()
    (hooks / "pre-commit").write_text("ls", encoding="utf-8")
    (hooks / "update.sample").write_text("ls", encoding="utf-8")

    assert ".git/hooks/pre-commit" in read_skill(folder).files
    assert not any("HEAD" in path or "sample" in path for path in read_skill(folder).files)


def test_unreadable_files_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)

    assert set(read_skill(folder).omitted.values()) == {"permission denied"}


def test_a_folder_that_may_not_be_listed_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("scripts"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refuse)

    assert read_skill(folder).omitted == {"scripts": "permission denied"}


def test_a_name_that_is_no_text_is_still_a_name(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/odd\xff.py")).write_bytes(b"x")

    assert "odd\\xff.py" in read_skill(folder).files


@pytest.mark.parametrize("name", ["missing", "nul\0byte"])
def test_nothing_to_read_is_an_error(folder: Path, name: str) -> None:
    with pytest.raises(InputError):
        read_skill(folder / name)
