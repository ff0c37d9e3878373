import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eval_rows import a_row

from demur.evals.answer import TargetAnswer
from demur.evals.target import TargetError
from demur.evals.targets.python_callable import PythonTarget, PythonOptions, find_function


def ask(function: Any, **options: Any) -> TargetAnswer:
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
    answer = ask(function)

    assert (answer.text, answer.error) == (text, None)
    assert answer.ms >= 0


def test_a_chat_completion_keeps_its_tokens_and_itself() -> None:
    answer = ask(completion)

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
def test_what_is_no_answer_is_this_rows_error(function: Any, kind: str, problem: str) -> None:
    answer = ask(function)

    assert (answer.error_kind, answer.error, answer.text) == (kind, problem, "")


def test_a_function_that_hangs_is_left_behind() -> None:
    answer = ask(lambda _: time.sleep(0.3), timeout_s=0.02)

    assert (answer.error_kind, answer.error) == ("timeout", "no answer within 0.02 s")


def slow(prompt: str) -> str:
    time.sleep(0.1)
    return f"done: {prompt[:6]}"


def test_plain_functions_run_beside_each_other() -> None:
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
