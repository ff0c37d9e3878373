from gates import Ticking, opened

from demur.service.dashboard.recent import cached_result
from demur.service.service import Service


def test_what_was_made_a_moment_ago_is_kept_for_that_service() -> None:
    clock = Ticking()
    made: list[int] = []
    with opened() as gate:
        service, other = Service(gate, clock=clock), Service(gate, clock=clock)

        def make() -> int:
            made.append(1)
            return len(made)

        assert [cached_result(service, "a", 5, make) for _ in range(2)] == [1, 1]
        assert cached_result(service, "b", 5, make) == 2
        assert cached_result(other, "a", 5, make) == 3
        clock.advance(seconds=6)
        assert cached_result(service, "a", 5, make) == 4
        for number in range(1001):
            cached_result(service, number, 5, make)
        assert cached_result(service, "a", 5, make) > 1000
        service.close()
        other.close()
