import asyncio
import sys

import pytest
from eval_rows import a_row

from demur.evals.answer import TargetAnswer
from demur.evals.targets.local_server import LocalServerTarget, LocalServerOptions


def ask(target: LocalServerTarget, count: int = 3) -> list[TargetAnswer]:
    async def asked() -> list[TargetAnswer]:
        try:
            return await asyncio.gather(*(target.answer(a_row(number)) for number in range(count)))
        finally:
            await target.close()

    return asyncio.run(asked())


def test_it_starts_with_the_first_row_and_ends_when_closed() -> None:
    target = LocalServerTarget(LocalServerOptions(persona="echo", system="Be kind."))
    answers = ask(target)

    assert [answer.text for answer in answers] == [f"Please say the number {n}." for n in range(3)]
    assert target._process is not None
    assert target._process.returncode is not None
    assert target.name == "testing-echo"
    assert target.settings == {
        "kind": "testing-server",
        "persona": "echo",
        "model": "",
        "system": "Be kind.",
        "stream": False,
    }


def test_one_that_was_never_asked_has_nothing_to_close() -> None:
    asyncio.run(LocalServerTarget().close())


def test_a_server_that_does_not_start_is_the_rows_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/echo")
    [answer] = ask(LocalServerTarget(), 1)

    assert answer.error_kind == "target"
    assert str(answer.error).startswith("the test server did not start")
