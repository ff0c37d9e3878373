import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.evals.answer import TargetAnswer, encode_answer
from demur.evals.run_answers import (
    AnswerFile,
    drop_torn_line,
    filter_answers,
    lock_folder,
    read_answers,
)
from demur.evals.run_manifest import RunError


def put(path: Path, *texts: str) -> None:
    with AnswerFile(path) as file:
        for number, text in enumerate(texts):
            file.append_answer(TargetAnswer(row_id=str(number), text=text))


def texts(path: Path) -> list[str]:
    return [answer.text for answer in read_answers(path)]


def test_what_was_put_is_read_in_order(tmp_path: Path) -> None:
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


@settings(max_examples=40)
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
def test_a_full_disk_is_said_with_the_way_on() -> None:
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
