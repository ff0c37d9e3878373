from typing import Any

import pytest

from demur.errors import InputTypeError
from demur.integrations.guarded.parameters import FunctionParameters


def positional(path: str, /, **more: Any) -> None:
    """Take a path that keywords cannot set."""


def test_further_keywords_stand_under_their_own_names() -> None:
    parameters = FunctionParameters.from_function(positional)

    given = parameters.bind_arguments(("notes.txt",), {"mode": "r"})

    assert given == {"path": "notes.txt", "more": {"mode": "r"}}
    assert parameters.visible_arguments(given) == {"path": "notes.txt", "mode": "r"}


def test_a_keyword_cannot_hide_an_argument_of_the_same_name() -> None:
    parameters = FunctionParameters.from_function(positional)

    given = parameters.bind_arguments(("/etc/passwd",), {"path": "notes.txt"})

    assert parameters.visible_arguments(given) == {
        "path": "/etc/passwd",
        "**more": {"path": "notes.txt"},
    }


def test_what_a_call_leaves_to_defaults_is_decided_on() -> None:
    parameters = FunctionParameters.from_function(lambda amount=900: amount)

    assert parameters.bind_arguments((), {}) == {"amount": 900}


def test_only_a_method_has_an_owner() -> None:
    def tool(cls: str) -> str:
        return cls

    assert FunctionParameters.from_function(tool).receiver is None
    assert FunctionParameters.from_function(FunctionParameters.bind_arguments).receiver == "self"


def test_a_function_must_say_what_it_takes() -> None:
    with pytest.raises(InputTypeError, match="has no signature"):
        FunctionParameters.from_function(min)
