import pytest

from demur.guards.code_execution.call import ProgramCall
from demur.guards.code_execution.searches import find_targets
from demur.guards.code_execution.value import CommandArg


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("find", ["./*"]),
        ("find .", ["./*"]),
        ("find / -name x*", ["/x*"]),
        ("find a b -type f", ["a/*.*?", "b/*.*?"]),
        ("find a -path */b/c", ["a/c"]),
        ("find a -name", ["a/*"]),
    ],
)
def test_a_search_finds_patterns_below_its_folders(text: str, want: list[str]) -> None:
    verb, *rest = text.split()
    call = ProgramCall(verb, CommandArg(verb, 0, 0), tuple(CommandArg(word, 0, 0) for word in rest))

    assert [arg.text for arg in find_targets(call)] == want
