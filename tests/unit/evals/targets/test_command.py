import asyncio
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from eval_rows import a_row

from demur.evals.answer import TargetAnswer
from demur.evals.target import TargetError
from demur.evals.targets import command
from demur.evals.targets.command import CommandOptions, CommandTarget

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


def test_a_line_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MAX_OUTPUT_BYTES", 1000)
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
