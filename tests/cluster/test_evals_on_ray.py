"""An eval on real Ray, in local mode: the run is that of this machine alone."""

from pathlib import Path

import pytest
from support.eval_rows import a_suite

from demur.evals.distributed import ray_engine, run_distributed

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]


def test_ray_asks_every_row_once_and_in_the_same_form(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed: make test-cluster")
    try:
        done = run_distributed(
            a_suite(25),
            "python:builtins:str.upper",
            {},
            tmp_path / "run",
            engine=ray_engine(2),
            part_size=4,
        )
        assert done.is_complete
        answers = {answer.row_id: answer.text for answer in done.iter_answers()}
        assert answers == {row.id: row.prompt.upper() for row in done.iter_rows()}
        assert len(answers) == 25
    finally:
        ray.shutdown()
