"""What a test hands to a reader that reports problems, where there should be none."""

import pytest

from demur.errors import Problem

__all__ = ["no_problem"]


def no_problem(problem: Problem) -> None:
    """Fail the test with the problem."""
    pytest.fail(str(problem))
