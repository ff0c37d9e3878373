import argparse
import io
import json
from collections import Counter
from pathlib import Path

import pytest

from demur.cli import detect
from demur.cli.main import Arguments, UsageError
from demur.errors import InputError

ROWS = (
    {"prompt": "a", "response": "I'm sorry, but I can't help with that."},
    {"prompt": "b", "response": "Sure! Here is a poem about the sea:\n\nThe tide goes out."},
    {"prompt": None, "response": "REFUSED: RCE_RISK: eval"},
    {"response": "   "},
)


def ran(*words: str) -> int:
    parser = argparse.ArgumentParser()
    detect.configure_detect(Arguments(parser))
    return detect.run_detect(parser.parse_args(words))


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)) + "\n", encoding="utf-8")
    return path


def test_the_counts_come_with_their_shares(
    answers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(str(answers)) == 0

    out = capsys.readouterr().out
    assert "full" in out
    assert "50.0 %" in out
    assert "RCE_RISK" in out
    assert "4 answers, 1 empty" in out


def test_as_json_the_counts_are_one_object(
    answers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(str(answers), "--json") == 0

    said = json.loads(capsys.readouterr().out)
    assert said["answers"] == 4
    assert said["kinds"] == {"full": 2, "partial": 0, "unable": 0, "none": 2}
    assert said["codes"] == {"MODEL_DECLINED": 1, "RCE_RISK": 1}
    # The learned model, where it is installed, is asked about one of the two in prose.
    bases = Counter(said["bases"])
    assert bases["prose"] + bases["learned"] == 2
    assert (bases["typed"], bases["empty"]) == (1, 1)
    assert said["bad_lines"] == 0


def test_each_answer_may_be_a_line_of_its_own(
    answers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(str(answers), "--each") == 0

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["kind"] for row in rows] == ["full", "none", "full", "none"]
    assert rows[0]["where"] == f"{answers}:1"
    assert rows[0]["language"] == "en"


def test_bad_lines_are_counted_with_their_place_and_the_rest_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mixed.jsonl"
    good = json.dumps(ROWS[0]).encode()
    bad = (b"{", b"\xff\xfe", b"[1]", b'{"response": 3}')
    path.write_bytes(b"\n".join((good, b"", *bad, good)))

    assert ran(str(path), "--json") == 0

    caught = capsys.readouterr()
    said = json.loads(caught.out)
    assert (said["answers"], said["bad_lines"]) == (2, 4)
    assert caught.err.splitlines() == [
        f"{path}:3: not JSON",
        f"{path}:4: not UTF-8, from byte 0 on",
        f"{path}:5: the field `response` is missing",
        f"{path}:6: the field `response` is `int`, not text",
    ]


def test_many_bad_lines_are_named_in_part_and_counted_in_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text("{\n" * 25, encoding="utf-8")

    assert ran(str(path)) == 0

    caught = capsys.readouterr()
    assert "25 lines could not be read" in caught.out
    assert caught.err.splitlines()[-1] == "and 5 more lines"


def test_fields_may_lie_deeper(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"choices": [{"message": {"content": "I can't assist with that."}}], "a.b": "why?"}
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps(row).encode()), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", stdin)

    words = ("--response-field", "choices.0.message.content", "--prompt-field", "a.b", "--json")
    assert ran("-", *words) == 0
    assert json.loads(capsys.readouterr().out)["kinds"]["full"] == 1


@pytest.mark.parametrize("name", ["choices.7.x", "choices.x", "nothing.at.all", "choices.0.x.y"])
def test_a_field_that_is_nowhere_is_missing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps({"choices": [{"x": 1}]}), encoding="utf-8")

    assert ran(str(path), "--response-field", name) == 0
    assert "could not be read" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("limit", "status"),
    [("full>10%", 3), ("full > 50%", 0), ("refused>49.9%", 3), ("partial>0%", 0), ("unable>0%", 0)],
)
def test_too_many_refusals_can_fail_a_run(limit: str, status: int, answers: Path) -> None:
    assert ran(str(answers), "--fail-over", limit) == status


@pytest.mark.parametrize("text", ["", "\n", "{}\n"])
def test_a_check_of_no_answers_never_passes(text: str, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(UsageError, match="there is no answer to check"):
        ran(str(path), "--fail-over", "full>10%")
    assert ran(str(path)) == 0


def test_a_limit_that_is_none_is_a_usage_error(answers: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        ran(str(answers), "--fail-over", "a lot")


def test_a_long_answer_is_reported_as_read_in_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps({"response": "A word. " * 5000}), encoding="utf-8")

    assert ran(str(path)) == 0
    assert "1 read at head and tail only" in capsys.readouterr().out


def test_a_file_that_is_not_there_is_an_error_with_its_name() -> None:
    with pytest.raises(InputError, match="no such file") as caught:
        ran("/nowhere/answers.jsonl")
    assert caught.value.where == "/nowhere/answers.jsonl"
