"""`make test-train` tests training with the libraries that it needs."""

import sys
from importlib import import_module
from importlib.util import find_spec

import pytest


@pytest.mark.skipif(find_spec("trl") is not None, reason="the extra is installed")
def test_without_the_extra_there_is_no_such_module() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("demur.evals.dpo_train")


def test_nothing_else_needs_it() -> None:
    import_module("demur.evals.dpo")

    assert "demur.evals.dpo_train" not in sys.modules
