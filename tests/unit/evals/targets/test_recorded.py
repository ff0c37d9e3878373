import json
from pathlib import Path
from typing import Any

import pytest
from eval_rows import a_row, wait

from demur.evals.answer import TargetAnswer, encode_answer, error_answer
from demur.evals.target import TargetError
from demur.evals.targets.recorded import RecordedTarget, RecordedOptions


def write(folder: Path, *lines: Any) -> Path:
    path = folder / "answers.jsonl"
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(raw) + b"\n")
    return path


def ask(path: Path, *rows: Any, **options: Any) -> list[TargetAnswer]:
    target = RecordedTarget(path, RecordedOptions(**options))
    try:
        return [wait(target.answer(row)) for row in rows]
    finally:
        wait(target.close())


def test_answers_are_found_by_id_or_by_prompt(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"id": "r0", "response": "by id"},
        {"prompt": " Please say the number 1. ", "answer": "by prompt"},
        {"id": 7, "output": "by number"},
    )
    answers = ask(path, a_row(0), a_row(1), a_row(id="7", prompt="?"))

    assert [answer.text for answer in answers] == ["by id", "by prompt", "by number"]
    assert [answer.row_id for answer in answers] == ["r0", "r1", "7"]


def test_the_newest_line_counts(tmp_path: Path) -> None:
    path = write(tmp_path, {"id": "r0", "text": "old"}, {"id": "r0", "text": "new"})

    assert ask(path, a_row(0))[0].text == "new"


def test_fields_may_have_other_names_and_lie_deeper(tmp_path: Path) -> None:
    reply = {"choices": [{"message": {"content": "deep"}}]}
    path = write(tmp_path, {"key": {"id": "r0"}, "reply": reply, "a.b": "x"})
    [answer] = ask(
        path,
        a_row(0),
        id_field="key.id",
        text_field="reply.choices.0.message.content",
        native_field="reply",
    )

    assert (answer.text, answer.native) == ("deep", reply)


@pytest.mark.parametrize("name", ["reply.7.x", "reply.x", "key.id.x"])
def test_a_field_that_is_nowhere_is_an_error(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, {"id": "r0", "reply": [1], "key": {"id": 3}})
    [answer] = ask(path, a_row(0), text_field=name)

    assert answer.error == f"the recorded line has no text under `{name}`"


def test_a_row_without_an_answer_has_an_error_and_no_empty_one(tmp_path: Path) -> None:
    path = write(tmp_path, {"id": "r0", "text": "a"}, b"{broken", b"", b"[1]", b"\xff")
    [answer] = ask(path, a_row(5))

    assert answer.error_kind == "target"
    assert answer.error == (
        "answers.jsonl holds no answer to `r5`; 3 of its lines could not be read"
    )
    assert ask(write(tmp_path, {}), a_row(5))[0].error == "answers.jsonl holds no answer to `r5`"


def test_the_answers_of_an_earlier_run_are_read_as_they_are(tmp_path: Path) -> None:
    first = TargetAnswer(row_id="r0", text="Hi.", native={"a": 1}, ms=5, prompt_tokens=3)
    path = write(
        tmp_path, encode_answer(first), encode_answer(error_answer("r1", "http", "it broke"))
    )

    assert ask(path, a_row(0)) == [first]
    assert ask(path, a_row(1))[0].error_kind == "http"


def test_a_line_that_only_looks_like_one_of_ours_is_read_all_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, {"row_id": "r0", "text": "Hi.", "ms": "slow"})

    assert ask(path, a_row(0))[0].text == "Hi."


def test_it_is_known_by_its_content(tmp_path: Path) -> None:
    settings = []
    for text in ("a", "a", "b"):
        target = RecordedTarget(write(tmp_path, {"id": "r0", "text": text}))
        settings.append(target.settings)
        wait(target.close())

    assert settings[0] == settings[1] != settings[2]
    assert target.name == "answers"


@pytest.mark.parametrize("name", ["nowhere.jsonl", "a\0b"])
def test_a_file_that_cannot_be_read_is_named(name: str) -> None:
    with pytest.raises(TargetError, match="cannot read the answers"):
        RecordedTarget(name)
