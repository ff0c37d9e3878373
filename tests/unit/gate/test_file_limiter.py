from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.gate.file_limiter import FileLimiter
from demur.gate.rate import LimiterUnavailableError, LocalLimiter, RateGuard, RateRequest
from demur.guards.rate import RateLimit

TWO = RateLimit(count=2, per_s=60)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def codes(limiter: FileLimiter, key: str = "mary") -> list[str]:
    return [one.code for one in RateGuard(TWO, limiter=limiter).check(RateRequest(key=key))]


def test_counts_outlive_a_process(tmp_path: Path) -> None:
    path, clock = tmp_path / "rates.json", Clock()
    found = [codes(FileLimiter(path, clock=clock)) for _ in range(3)]

    assert found == [[], [], ["RATE_LIMIT"]]
    assert codes(FileLimiter(path, clock=clock), "ada") == []
    clock.now += 31
    assert codes(FileLimiter(path, clock=clock)) == []
    assert path.stat().st_mode & 0o077 == 0


@given(st.lists(st.tuples(st.floats(0, 40), st.sampled_from("ab")), max_size=30))
def test_several_processes_admit_what_one_would(
    tmp_path_factory: pytest.TempPathFactory, uses: list[tuple[float, str]]
) -> None:
    """INVARIANT: processes that share a file admit no more together than one process would."""
    path, clock = tmp_path_factory.mktemp("rates") / "rates.json", Clock()
    one = LocalLimiter(clock=clock)
    for pause, key in uses:
        clock.now += pause
        alone = RateGuard(TWO, limiter=one).check(RateRequest(key=key))

        assert codes(FileLimiter(path, clock=clock), key) == [each.code for each in alone]


def test_counts_that_cannot_be_used_admit_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(LimiterUnavailableError, match="it is damaged") as caught:
        FileLimiter(path).take_units("mary", [TWO])
    assert "delete the file" in (caught.value.help or "")

    with pytest.raises(LimiterUnavailableError, match="cannot be used"):
        FileLimiter(tmp_path / "nowhere" / "rates.json").take_units("mary", [TWO])


def test_there_are_no_more_keys_than_allowed(tmp_path: Path) -> None:
    clock = Clock()
    limiter = FileLimiter(tmp_path / "rates.json", max_keys=2, clock=clock)
    results = [limiter.take_units(key, [TWO]).full for key in "abc"]

    assert results == [None, None, 1.0]
    clock.now += 90_000
    assert limiter.take_units("c", [TWO]).full is None
