from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from demur.service.entropy import RandomBuffer


def test_a_stock_is_random_and_of_the_right_length() -> None:
    stock = RandomBuffer()

    assert len({stock(16) for _ in range(1000)}) == 1000
    assert [len(stock(size)) for size in (0, 1, 10_000)] == [0, 1, 10_000]


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 32))
def test_nobody_gets_what_somebody_has(sizes: list[int], size: int) -> None:
    """INVARIANT: no random byte is handed out twice."""
    numbers = count()
    fetched: list[int] = []

    def source(wanted: int) -> bytes:
        # Places, not values: a byte that comes twice would be seen.
        fetched.append(wanted)
        return bytes(next(numbers) % 256 for _ in range(wanted))

    stock = RandomBuffer(source, size=size)
    handed = [stock(each) for each in sizes]

    assert [len(each) for each in handed] == sizes
    joined = b"".join(handed)
    places, at = [], 0
    for byte in joined:
        while at % 256 != byte:
            at += 1
        places.append(at)
        at += 1
    assert len(set(places)) == len(places)
    assert at <= sum(fetched)
