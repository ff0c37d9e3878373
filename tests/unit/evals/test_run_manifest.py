import json
from pathlib import Path

import msgspec
import pytest
from eval_rows import Scripted, a_suite

from demur.evals.run_manifest import (
    RunManifest,
    RunError,
    check_manifest,
    make_manifest,
    read_manifest,
    write_manifest,
)
from demur.version import __version__


def manifest() -> RunManifest:
    target = Scripted(settings={"kind": "scripted", "words": ("a", "b")})
    return make_manifest(a_suite(), target, rows=10, seed=1, limit=None, now="2026-01-01")


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_manifest(tmp_path, manifest())

    assert read_manifest(tmp_path) == manifest()
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    value = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert value["versions"]["demur"] == __version__
    assert value["target"]["settings"]["words"] == ["a", "b"]


def test_a_folder_without_a_run_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="the folder holds no run") as caught:
        read_manifest(tmp_path)

    assert "demur eval run" in str(caught.value.help)


@pytest.mark.parametrize("text", ["", "{}", '{"schema_version": "eval_run.v9"}'])
def test_a_manifest_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match="cannot read the run") as caught:
        read_manifest(tmp_path)

    assert caught.value.where == str(tmp_path / "run.json")


def test_the_same_run_may_go_on_at_another_time_and_place(tmp_path: Path) -> None:
    later = msgspec.structs.replace(manifest(), started_at="2027", versions={"demur": "9"})

    check_manifest(tmp_path, manifest(), later)


def test_every_change_is_named_at_once(tmp_path: Path) -> None:
    other = make_manifest(
        a_suite(3, "other"), Scripted(), rows=3, seed=2, limit=3, now="2026-01-01"
    )
    with pytest.raises(RunError) as caught:
        check_manifest(tmp_path, manifest(), other)

    assert caught.value.problem == (
        "the run was started with other settings: suite `small 1`, now `other 1`; "
        "target `scripted`, now `scripted` in words; seed `1`, now `2`; limit `None`, now `3`"
    )


def test_a_target_may_change_in_nothing_but_its_name(tmp_path: Path) -> None:
    renamed = msgspec.structs.replace(
        manifest(), target=msgspec.structs.replace(manifest().target, name="x")
    )
    with pytest.raises(RunError) as caught:
        check_manifest(tmp_path, manifest(), renamed)

    assert caught.value.problem.endswith(": target `scripted`, now `x`")
