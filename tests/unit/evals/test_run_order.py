from collections import Counter

from eval_rows import a_row, a_suite
from hypothesis import given
from hypothesis import strategies as st

from demur.evals.run_order import select_rows

ROWS = a_suite(40).rows


def test_without_a_seed_the_order_is_the_suites() -> None:
    assert select_rows(ROWS, seed=None, limit=None) is ROWS
    assert select_rows(ROWS, seed=None, limit=3) == ROWS[:3]


@given(seed=st.integers(), limit=st.none() | st.integers(1, 60))
def test_a_sample_is_the_same_each_time_and_holds_no_row_twice(
    seed: int, limit: int | None
) -> None:
    drawn = select_rows(ROWS, seed=seed, limit=limit)

    assert drawn == select_rows(tuple(reversed(ROWS)), seed=seed, limit=limit)
    assert len({row.id for row in drawn}) == len(drawn) == min(40, limit or 40)


def test_another_seed_draws_another_sample() -> None:
    assert len({select_rows(ROWS, seed=n, limit=5)[0].id for n in range(20)}) > 5


@given(seed=st.integers(0, 1000))
def test_twins_are_drawn_together(seed: int) -> None:
    pairs = [a_row(n, id=f"p{n // 2}-{n % 2}", twin=f"p{n // 2}-{1 - n % 2}") for n in range(30)]
    drawn = select_rows(pairs, seed=seed, limit=10)

    assert set(Counter(row.id.partition("-")[0] for row in drawn).values()) == {2}
