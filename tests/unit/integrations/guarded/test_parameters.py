from typing import Any

import pytest

from demur.errors import InputTypeError
from demur.integrations.guarded.parameters import Parameters


def positional(path: str, /, **more: Any) -> None:
    """Take a path that keywords cannot set."""


def test_further_keywords_stand_under_their_own_names() -> None:
    parameters = Parameters.of(positional)

    given = parameters.named(("notes.txt",), {"mode": "r"})

    assert given == {"path": "notes.txt", "more": {"mode": "r"}}
    assert parameters.shown(given) == {"path": "notes.txt", "mode": "r"}


def test_a_keyword_cannot_hide_an_argument_of_the_same_name() -> None:
    parameters = Parameters.of(positional)

    given = parameters.named(("/etc/passwd",), {"path": "notes.txt"})

    assert parameters.shown(given) == {"path": "/etc/passwd", "**more": {"path": "notes.txt"}}


def test_what_a_call_leaves_to_defaults_is_decided_on() -> None:
    parameters = Parameters.of(lambda amount=900: amount)

    assert parameters.named((), {}) == {"amount": 900}


def test_only_a_method_has_an_owner() -> None:
    def tool(cls: str) -> str:
        return cls

    assert Parameters.of(tool).owner is None
    assert Parameters.of(Parameters.named).owner == "self"


def test_a_function_must_say_what_it_takes() -> None:
    with pytest.raises(InputTypeError, match="has no signature"):
        Parameters.of(min)
