import pytest

from demur.service.logins import LoginLimiter
from demur.service.problem import ProblemError


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def tried(logins: LoginLimiter, address: str, times: int) -> int:
    """Return how often somebody was let try."""
    count = 0
    for _ in range(times):
        try:
            logins.count_attempt(address)
            count += 1
        except ProblemError as error:
            count += error.status != 429
    return count


def test_an_address_has_its_share_and_gets_more_in_time() -> None:
    clock = Clock()
    logins = LoginLimiter(monotonic=clock)

    assert tried(logins, "10.0.0.1", 30) == 20
    assert tried(logins, "10.0.0.2", 5) == 5
    with pytest.raises(ProblemError) as caught:
        logins.count_attempt("10.0.0.1")
    assert caught.value.headers == {"retry-after": "1"}
    clock.now += 3
    assert tried(logins, "10.0.0.1", 30) == 3


def test_all_addresses_together_have_a_share() -> None:
    logins = LoginLimiter(monotonic=Clock())

    assert sum(tried(logins, f"10.0.0.{number}", 5) for number in range(100)) == 100


@pytest.mark.parametrize(
    "addresses",
    [[f"2001:db8::{number:x}" for number in range(30)], ["", "somewhere", "localhost"] * 10],
)
def test_addresses_that_one_can_choose_from_are_one(addresses: list[str]) -> None:
    logins = LoginLimiter(monotonic=Clock())

    assert sum(tried(logins, address, 1) for address in addresses) == 20
