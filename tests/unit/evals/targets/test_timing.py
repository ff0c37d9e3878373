import time

from demur.evals.targets.timing import ms_since


def test_time_is_told_in_milliseconds() -> None:
    began = time.perf_counter() - 2

    assert 2000 <= ms_since(began) < 3000
