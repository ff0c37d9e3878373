import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.eval_rows import a_suite

from demur.errors import InputError, MissingExtraError
from demur.evals.distributed import RunPart, ray_engine, run_distributed
from demur.evals.run import RunProgress
from demur.evals.run_files import RunError
from demur.evals.run_folder import EvalRun
from demur.evals.suite_row import EvalRow
from demur.evals.target import TargetAnswer

SPEC = "python:builtins:str.upper"


def here(function: Callable[[RunPart], bytes], parts: Iterator[RunPart]) -> Iterator[bytes]:
    """Do the parts in this process, one after the other."""
    return map(function, parts)


def run(folder: Path, count: int = 25, **settings: Any) -> EvalRun:
    given = {"engine": here, "part_size": 4, **settings}
    return run_distributed(a_suite(count), SPEC, {}, folder, **given)


def test_the_folder_is_that_of_any_other_run(tmp_path: Path) -> None:
    done = run(tmp_path / "run", limit=20, seed=1)

    assert done.is_complete
    answers = {answer.row_id: answer.text for answer in done.iter_answers()}
    assert answers == {row.id: row.prompt.upper() for row in done.iter_rows()}
    assert len(answers) == 20


def test_a_run_that_was_stopped_goes_on_with_the_parts_that_are_left(tmp_path: Path) -> None:
    def dying(function: Callable[[RunPart], bytes], parts: Iterator[RunPart]) -> Iterator[bytes]:
        for number, part in enumerate(parts):
            if number == 2:
                raise KeyboardInterrupt
            yield function(part)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", engine=dying)
    asked: list[int] = []

    def counting(function: Callable[[RunPart], bytes], parts: Iterator[RunPart]) -> Iterator[bytes]:
        for part in parts:
            done = function(part)
            asked.append(len(done.splitlines()))
            yield done

    done = run(tmp_path / "run", engine=counting)
    assert sum(asked) == 25 - 8
    assert len(list(done.iter_answers())) == 25


def test_machines_share_the_limit_on_requests(tmp_path: Path) -> None:
    seen: list[Any] = []

    def looking(function: Callable[[RunPart], bytes], parts: Iterator[RunPart]) -> Iterator[bytes]:
        del function
        seen.extend(part.options for part in parts)
        return iter(())

    run_distributed(
        a_suite(2),
        "http://localhost:9/v1",
        {"rate": "8", "retries": 0},
        tmp_path / "run",
        engine=looking,
        parts_at_once=4,
    )
    assert seen == [{"rate": 2.0, "retries": 0}]


def test_progress_is_notified_and_another_suite_is_refused(tmp_path: Path) -> None:
    seen: list[Any] = []

    class Watch(RunProgress):
        def begin(self, total: int, done: int) -> None:
            seen.append((total, done))

        def add_answer(self, row: EvalRow, answer: TargetAnswer) -> None:
            assert row.prompt.upper() == answer.text
            seen.append(row.id)

        def end(self) -> None:
            seen.append("end")

    run(tmp_path / "run", 3, progress=Watch())
    assert seen == [(3, 0), "r0", "r1", "r2", "end"]
    with pytest.raises(RunError, match="started with other settings"):
        run(tmp_path / "run", 4)


@pytest.mark.parametrize("wrong", [{"parts_at_once": 0}, {"part_size": 0}])
def test_a_run_has_parts_and_parts_have_rows(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="at least 1"):
        run(tmp_path / "run", **wrong)


class _Task:
    def __init__(self, function: Any) -> None:
        self._function = function

    def remote(self, part: RunPart) -> Any:
        return lambda: self._function(part)


def test_ray_has_only_so_many_parts_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most: list[int] = []

    def wait_for(under_way: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        most.append(len(under_way))
        return under_way[:num_returns], under_way[num_returns:]

    started: list[bool] = []
    ray = types.ModuleType("ray")
    vars(ray).update(
        is_initialized=lambda: bool(started),
        init=lambda **_: started.append(True),
        remote=_Task,
        wait=wait_for,
        get=lambda done: [one() for one in done],
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    done = run(tmp_path / "run", engine=ray_engine(3))

    assert len(list(done.iter_answers())) == 25
    assert max(most) == 3
    assert started == [True]
    run(tmp_path / "again", engine=ray_engine(3))
    assert started == [True]


def test_without_ray_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match="`ray`"):
        ray_engine()
