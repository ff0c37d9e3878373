import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.eval_rows import Scripted, a_suite
from support.property_runs import examples

from demur.evals.run_files import (
    AnswerCache,
    AnswerFile,
    RunError,
    RunManifest,
    check_manifest,
    drop_torn_line,
    filter_answers,
    lock_folder,
    make_manifest,
    read_answers,
    read_manifest,
    write_manifest,
)
from demur.evals.target import TargetAnswer, encode_answer, error_answer
from demur.version import __version__


def manifest() -> RunManifest:
    target = Scripted(settings={"kind": "scripted", "words": ("a", "b")})
    return make_manifest(a_suite(), target, rows=10, seed=1, limit=None, now="2026-01-01")


def test_a_written_manifest_is_read_back(tmp_path: Path) -> None:
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


def put(path: Path, *texts: str) -> None:
    with AnswerFile(path) as file:
        for number, text in enumerate(texts):
            file.append_answer(TargetAnswer(row_id=str(number), text=text))


def texts(path: Path) -> list[str]:
    return [answer.text for answer in read_answers(path)]


def test_appended_answers_are_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    put(path, "a", "b\nc")
    put(path, "d")

    assert texts(path) == ["a", "b\nc", "d"]


def test_an_answer_is_there_before_the_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with AnswerFile(path) as file:
        file.append_answer(TargetAnswer(row_id="0", text="a"))
        assert texts(path) == ["a"]


def test_a_file_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert texts(tmp_path / "answers.jsonl") == []


@settings(max_examples=examples(40))
@given(st.data())
def test_wherever_a_file_is_torn_whole_lines_stay(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("torn") / "answers.jsonl"
    put(path, "short", "long " * 20_000, "", "last")
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")

    assert len(texts(path)) == kept
    drop_torn_line(path)
    assert path.read_bytes() == b"".join(whole.splitlines(keepends=True)[:kept])


@pytest.mark.parametrize("line", [b"{}", b"nonsense", b"[" * 5000])
def test_a_line_that_is_no_answer_is_named_with_its_place(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(encode_answer(TargetAnswer(row_id="a")) + b"\n" + line + b"\n")
    with pytest.raises(RunError, match="not an answer: ") as caught:
        texts(path)

    assert caught.value.where == f"{path}:2"


def test_answers_can_be_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    put(path, "a", "b", "a")
    filter_answers(path, lambda answer: answer.text == "a")

    assert texts(path) == ["a", "a"]
    assert [one.name for one in tmp_path.iterdir()] == ["answers.jsonl"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_a_full_disk_is_an_error_that_says_how_to_resume() -> None:
    file = AnswerFile(Path("/dev/full"))
    with pytest.raises(RunError, match="no space left on device") as caught:
        file.append_answer(TargetAnswer(row_id="a"))
    file.close()

    assert "resume with the same command" in str(caught.value.help)


def test_only_what_is_new_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with AnswerFile(tmp_path / "answers.jsonl") as file:
        file.sync()
        file.append_answer(TargetAnswer(row_id="a"))
        file.sync()
        file.sync()

    assert len(synced) == 1


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    with (
        lock_folder(tmp_path),
        pytest.raises(RunError, match="another process is writing"),
        lock_folder(tmp_path),
    ):
        """It does not come to this."""
    with lock_folder(tmp_path):
        """Free again."""


def manifest_run_cache(kind: str = "scripted", count: int = 3) -> RunManifest:
    target = Scripted(settings={"kind": kind})
    return make_manifest(a_suite(count), target, rows=count, seed=None, limit=None, now="now")


def test_an_answer_is_found_again_by_the_next_run(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "deep/cache", manifest_run_cache())
    assert cache.get_answer("r0") is None
    cache.put_answer(TargetAnswer(row_id="r0", text="a"))
    cache.put_answer(error_answer("r1", "http", "broken"))
    cache.close()
    cache = AnswerCache(tmp_path / "deep/cache", manifest_run_cache())

    assert cache.get_answer("r0") == TargetAnswer(row_id="r0", text="a")
    assert cache.get_answer("r1") is None
    cache.close()


def test_another_suite_or_target_has_a_cache_of_its_own(tmp_path: Path) -> None:
    for one in (manifest_run_cache(), manifest_run_cache("other"), manifest_run_cache(count=4)):
        cache = AnswerCache(tmp_path, one)
        assert cache.get_answer("r0") is None
        cache.put_answer(TargetAnswer(row_id="r0", text="a"))
        cache.close()

    assert len(list(tmp_path.iterdir())) == 3


def test_lines_that_are_none_and_a_torn_one_are_passed_over(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path, manifest_run_cache())
    cache.put_answer(TargetAnswer(row_id="r0", text="a"))
    cache.close()
    [path] = tmp_path.iterdir()
    path.write_bytes(b"nonsense\n" + path.read_bytes() + b'{"row_id": "r1"')
    cache = AnswerCache(tmp_path, manifest_run_cache())
    cache.put_answer(TargetAnswer(row_id="r2", text="c"))
    cache.close()
    cache = AnswerCache(tmp_path, manifest_run_cache())

    assert [cache.get_answer(name) is not None for name in ("r0", "r1", "r2")] == [
        True,
        False,
        True,
    ]
    cache.close()
