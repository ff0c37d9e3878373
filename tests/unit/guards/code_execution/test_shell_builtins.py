"""Commands of the shell: what they leave in its state."""

import pytest

from demur.guards.code_execution.call import Arg, ProgramCall, Value
from demur.guards.code_execution.shell_builtins import BUILTINS, change_folder
from demur.guards.code_execution.shell_state import ShellState, texts_of


def call(*words: str, stdin: str = "") -> ProgramCall:
    name, *args = (Arg(word, 0, 0) for word in words)
    return ProgramCall(name.text, name, tuple(args), stdin=Value(stdin))


def after(*words: str, stdin: str = "") -> ShellState:
    state = ShellState("/desk")
    state.positional = ((Value("p1"), Value("p2")),)
    BUILTINS[words[0]](call(*words, stdin=stdin), state)
    return state


def texts(state: ShellState, name: str) -> list[str]:
    return [value.text for value in texts_of(state.read_variable(name))]


@pytest.mark.parametrize(
    ("words", "stdin", "name", "want"),
    [
        (("read", "x"), "a b", "x", ["a b"]),
        (("read", "-r", "x", "y"), "a b c", "y", ["b c"]),
        (("read", "x"), "a\nb", "x", ["a", "b"]),
        (("read",), "a", "REPLY", ["a"]),
        (("read", "-d", "", "x"), "a\nb", "x", ["a\nb"]),
        (("printf", "-v", "x", "%s-%s", "a", "b"), "", "x", ["a-b"]),
        (("declare", "x=1"), "", "x", ["1"]),
        (("export", "x=1"), "", "x", ["1"]),
        (("declare", "-l", "x=ABC"), "", "x", ["abc"]),
        (("set", "--", "a", "b"), "", "2", ["b"]),
        (("set", "-e", "a"), "", "1", ["a"]),
        (("shift",), "", "1", ["p2"]),
        (("shift", "2"), "", "1", [""]),
    ],
)
def test_a_command_of_the_shell_sets_a_variable(
    words: tuple[str, ...], stdin: str, name: str, want: list[str]
) -> None:
    assert texts(after(*words, stdin=stdin), name) == want


def test_lines_and_fields_become_an_array() -> None:
    lines = after("mapfile", "-t", "c", stdin="a b\nc\n")
    fields = after("read", "-a", "c", stdin="a b")

    assert lines.read_items("c") == ((Value("a b"), Value("c")),)
    assert fields.read_items("c") == ((Value("a"), Value("b")),)


def test_an_unknown_input_gives_an_unknown_value() -> None:
    state = ShellState("/desk")
    BUILTINS["read"](call("read", "x")._replace(stdin=Value("", known=False)), state)

    assert not next(texts_of(state.read_variable("x"))).known


def test_options_aliases_traps_and_references_are_kept() -> None:
    assert after("set", "-euo", "pipefail").exits_on_error
    assert after("set", "-o", "errexit").exits_on_error
    assert not after("set", "+e").exits_on_error
    assert after("alias", "x=rm -rf").aliases == {"x": ("rm -rf",)}
    assert after("hash", "-p", "/bin/rm", "ls").aliases == {"ls": ("/bin/rm",)}
    assert [trap.text for trap in after("trap", "--", "ls", "EXIT").traps] == ["ls"]
    assert after("declare", "-n", "r=x").references == {"r": "x"}
    assert after("export", "x").exported == {"x"}


def test_a_folder_is_entered_or_missed() -> None:
    state = ShellState("/desk")
    failed = change_folder(call("cd", "/srv"), state, lambda _: True)

    assert failed is not None
    assert (state.folders, failed.folders, failed.after_missed) == (("/srv",), ("/desk",), True)
    change_folder(call("pushd", "a"), state, lambda _: True)
    assert state.folders == ("/srv/a",)
    change_folder(call("popd"), state, lambda _: True)
    assert state.folders == ("/srv",)
    change_folder(call("cd", "-"), state, lambda _: True)
    assert state.folders == ("/srv/a",)
    assert change_folder(call("cd", "$x"), state, lambda _: True) is None
