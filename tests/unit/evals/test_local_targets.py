import asyncio
import json
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.eval_rows import a_row, wait

from demur.evals import local_targets
from demur.evals.local_targets import (
    CommandOptions,
    CommandTarget,
    PythonOptions,
    PythonTarget,
    RecordedOptions,
    RecordedTarget,
    find_function,
)
from demur.evals.target import TargetAnswer, TargetError, encode_answer, error_answer

LINES = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    prompt = asked["prompt"]
    if prompt == "die":
        sys.exit(3)
    if prompt == "hang":
        import time; time.sleep(60)
    if prompt == "odd":
        print("no JSON", flush=True)
    elif prompt == "fail":
        print(json.dumps({"error": "it broke"}), flush=True)
    elif prompt == "long":
        print("x" * 5000, flush=True)
    else:
        print(json.dumps({"text": prompt.upper(), "pid": 1}), flush=True)
"""


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def ask(words: str, *prompts: str, **options: Any) -> list[TargetAnswer]:
    async def asked() -> list[TargetAnswer]:
        target = CommandTarget(words, CommandOptions(**options))
        try:
            return [await target.answer(a_row(n, prompt=text)) for n, text in enumerate(prompts)]
        finally:
            await target.close()

    return asyncio.run(asked())


def test_the_prompt_goes_in_and_the_answer_comes_out() -> None:
    [answer] = ask(python("import sys; print(sys.stdin.read().upper())"), "grüße\nall")

    assert (answer.text, answer.error) == ("GRÜSSE\nALL", None)
    assert answer.ms > 0


@pytest.mark.parametrize(
    ("code", "kind", "problem"),
    [
        ("import sys; sys.exit('it went\\n wrong')", "target", "exit status 1: it went wrong"),
        ("import os; os._exit(4)", "target", "exit status 4"),
        ("import os; os.write(1, b'\\xff')", "protocol", "not UTF-8, from byte 0 on"),
    ],
)
def test_a_command_that_fails_is_this_rows_error(code: str, kind: str, problem: str) -> None:
    [answer] = ask(python(code), "hello")

    assert (answer.error_kind, answer.text) == (kind, "")
    assert problem in str(answer.error)


def test_a_command_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "alive"
    script = tmp_path / "slow.sh"
    script.write_text(f"(sleep 1; touch {mark}) & sleep 60\n", encoding="utf-8")
    [answer] = ask(f"sh {script}", "hello", timeout_s=0.2)

    assert (answer.error_kind, answer.error) == ("timeout", "no answer within 0.2 s")
    assert not mark.exists()


@pytest.mark.parametrize("lines", [False, True])
def test_a_command_that_there_is_not_is_named(lines: bool) -> None:
    [answer] = ask("/no/such/program", "hello", lines=lines)

    assert answer.error == "cannot run `/no/such/program`: no such file or directory"


def test_a_process_that_lives_on_answers_line_by_line(tmp_path: Path) -> None:
    script = tmp_path / "bot.py"
    script.write_text(f"open('{tmp_path}/starts', 'a').write('x')\n{LINES}", encoding="utf-8")
    answers = ask(f"{sys.executable} {script}", "one", "two\nlines", "fail", "odd", "x", lines=True)

    assert [answer.text for answer in answers] == ["ONE", "TWO\nLINES", "", "", "X"]
    assert answers[2].error == "it broke"
    assert answers[3].error == "not a JSON object with `text` or `error`: no JSON"
    assert (tmp_path / "starts").read_text(encoding="utf-8") == "x"


def test_a_process_that_dies_costs_one_row() -> None:
    answers = ask(python(LINES), "die", "next", lines=True)

    assert answers[0].error == "the process ended before it answered"
    assert answers[1].text == "NEXT"


def test_a_line_that_does_not_come_is_not_waited_for() -> None:
    answers = ask(python(LINES), "one", "hang", "next", lines=True, timeout_s=0.7)

    assert [answer.error_kind for answer in answers] == [None, "timeout", None]


def test_an_endless_line_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_targets, "MAX_OUTPUT_BYTES", 1000)
    [answer] = ask(python(LINES), "long", lines=True)

    assert answer.error == "a line of more than 1000 bytes"


@pytest.mark.parametrize("words", ["", "   ", "say 'unclosed"])
def test_a_command_that_is_none_is_refused(words: str) -> None:
    with pytest.raises(TargetError):
        CommandTarget(words)


def test_it_is_known_by_its_words() -> None:
    target = CommandTarget("/usr/bin/cat -v")

    assert target.name == "cat"
    assert target.settings == {"kind": "command", "command": "/usr/bin/cat -v", "lines": False}


def ask_python_callable(function: Any, **options: Any) -> TargetAnswer:
    async def asked() -> TargetAnswer:
        target = PythonTarget(function, PythonOptions(**options))
        try:
            return await target.answer(a_row(prompt="hello"))
        finally:
            await target.close()

    return asyncio.run(asked())


async def awaited(prompt: str) -> str:
    return prompt.upper()


def partly(prompt: str) -> Any:
    return awaited(prompt)


def pieces(prompt: str) -> Iterator[str]:
    yield from prompt


def completion(prompt: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": prompt * 2}
    return {"choices": [{"message": message}], "usage": {"prompt_tokens": 4}}


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (str.upper, "HELLO"),
        (awaited, "HELLO"),
        (partly, "HELLO"),
        (pieces, "hello"),
        (completion, "hellohello"),
    ],
)
def test_whatever_form_an_answer_has_it_becomes_text(function: Any, text: str) -> None:
    answer = ask_python_callable(function)

    assert (answer.text, answer.error) == (text, None)
    assert answer.ms >= 0


def test_a_chat_completion_keeps_its_tokens_and_itself() -> None:
    answer = ask_python_callable(completion)

    assert answer.prompt_tokens == 4
    assert answer.native["choices"]


def raises(prompt: str) -> str:
    raise ValueError(prompt)


def leaves(prompt: str) -> str:
    raise SystemExit(prompt)


@pytest.mark.parametrize(
    ("function", "kind", "problem"),
    [
        (raises, "target", "ValueError: hello"),
        (leaves, "target", "SystemExit: hello"),
        (len, "target", "the function returned `int` instead of text"),
        (str.encode, "target", "the function returned `bytes` instead of text"),
        (lambda prompt: [prompt, 3], "target", "the function returned `list` instead of text"),
        (lambda _: {"choices": []}, "protocol", "the response has no choices"),
    ],
)
def test_an_invalid_answer_is_an_error_of_its_row(function: Any, kind: str, problem: str) -> None:
    answer = ask_python_callable(function)

    assert (answer.error_kind, answer.error, answer.text) == (kind, problem, "")


def test_a_function_that_hangs_is_left_behind() -> None:
    answer = ask_python_callable(lambda _: time.sleep(0.3), timeout_s=0.02)

    assert (answer.error_kind, answer.error) == ("timeout", "no answer within 0.02 s")


def slow(prompt: str) -> str:
    time.sleep(0.1)
    return f"done: {prompt[:6]}"


def test_plain_functions_run_concurrently() -> None:
    async def asked() -> list[TargetAnswer]:
        target = PythonTarget(slow, PythonOptions(threads=8))
        answers = await asyncio.gather(*(target.answer(a_row(number)) for number in range(8)))
        await target.close()
        return answers

    began = time.monotonic()
    assert {answer.text for answer in asyncio.run(asked())} == {"done: Please"}
    assert time.monotonic() - began < 0.7


def test_it_is_known_by_where_it_lives() -> None:
    assert PythonTarget(raises).name.endswith(":raises")
    target = PythonTarget(raises, name="app:answer")
    assert target.settings == {"kind": "python", "function": "app:answer"}


def test_a_function_of_the_working_directory_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "class Bot:\n    @staticmethod\n    def say(prompt):\n        return prompt\nname = 3\n"
    (tmp_path / "eval_toy_model.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    assert find_function("eval_toy_model:Bot.say")("hi") == "hi"
    with pytest.raises(TargetError, match="is not a function"):
        find_function("eval_toy_model:name")


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("", "names no function"),
        ("json", "names no function"),
        ("no_such_module:f", "ModuleNotFoundError"),
        ("json:nothing", "AttributeError"),
    ],
)
def test_a_function_that_is_nowhere_is_named(place: str, problem: str) -> None:
    with pytest.raises(TargetError, match=problem) as caught:
        find_function(place)

    assert caught.value.help


def write(folder: Path, *lines: Any) -> Path:
    path = folder / "answers.jsonl"
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(raw) + b"\n")
    return path


def ask_recorded(path: Path, *rows: Any, **options: Any) -> list[TargetAnswer]:
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
    answers = ask_recorded(path, a_row(0), a_row(1), a_row(id="7", prompt="?"))

    assert [answer.text for answer in answers] == ["by id", "by prompt", "by number"]
    assert [answer.row_id for answer in answers] == ["r0", "r1", "7"]


def test_the_newest_line_counts(tmp_path: Path) -> None:
    path = write(tmp_path, {"id": "r0", "text": "old"}, {"id": "r0", "text": "new"})

    assert ask_recorded(path, a_row(0))[0].text == "new"


def test_fields_may_have_other_names_and_lie_deeper(tmp_path: Path) -> None:
    reply = {"choices": [{"message": {"content": "deep"}}]}
    path = write(tmp_path, {"key": {"id": "r0"}, "reply": reply, "a.b": "x"})
    [answer] = ask_recorded(
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
    [answer] = ask_recorded(path, a_row(0), text_field=name)

    assert answer.error == f"the recorded line has no text under `{name}`"


def test_a_row_without_an_answer_has_an_error_and_no_empty_one(tmp_path: Path) -> None:
    path = write(tmp_path, {"id": "r0", "text": "a"}, b"{broken", b"", b"[1]", b"\xff")
    [answer] = ask_recorded(path, a_row(5))

    assert answer.error_kind == "target"
    assert answer.error == (
        "answers.jsonl holds no answer to `r5`; 3 of its lines could not be read"
    )
    assert (
        ask_recorded(write(tmp_path, {}), a_row(5))[0].error
        == "answers.jsonl holds no answer to `r5`"
    )


def test_the_answers_of_an_earlier_run_are_read_as_they_are(tmp_path: Path) -> None:
    first = TargetAnswer(row_id="r0", text="Hi.", native={"a": 1}, ms=5, prompt_tokens=3)
    path = write(
        tmp_path, encode_answer(first), encode_answer(error_answer("r1", "http", "it broke"))
    )

    assert ask_recorded(path, a_row(0)) == [first]
    assert ask_recorded(path, a_row(1))[0].error_kind == "http"


def test_a_line_that_only_looks_like_one_of_ours_is_read_all_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, {"row_id": "r0", "text": "Hi.", "ms": "slow"})

    assert ask_recorded(path, a_row(0))[0].text == "Hi."


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
