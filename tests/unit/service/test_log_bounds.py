import pytest
from served import served

from demur.service.log_bounds import limit_log_scan
from demur.service.problem import ProblemError
from demur.service.settings import ServiceSettings


def test_a_log_is_read_up_to_its_size() -> None:
    with served(ServiceSettings(largest_log=10)) as call:
        progress = limit_log_scan(call.service)
        progress(160)
        with pytest.raises(ProblemError) as caught:
            progress(1)

    assert caught.value.status == 413


def test_a_log_that_takes_too_long_is_given_up() -> None:
    with served(ServiceSettings(timeout_s=1e-9)) as call:
        progress = limit_log_scan(call.service)
        with pytest.raises(TimeoutError):
            progress(1)


def test_no_log_is_read_after_the_end() -> None:
    with served() as call:
        progress = limit_log_scan(call.service)
        progress(1)
        call.service.close()
        with pytest.raises(TimeoutError):
            progress(1)
