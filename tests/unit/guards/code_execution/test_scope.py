"""What a shell remembers."""

from demur.guards.code_execution.scope import ShellState
from demur.guards.code_execution.value import Taint, TextValue


def test_variables_positions_and_what_every_shell_sets() -> None:
    scope = ShellState("/desk")
    scope.assign("x", TextValue("1"))
    scope.positional = (TextValue("a"),)

    assert scope.variable_value("x") == TextValue("1")
    assert scope.variable_value("1") == TextValue("a")
    assert scope.variable_value("2") is None
    assert scope.variable_value("PWD") == TextValue("/desk")
    assert scope.variable_value("HOME") == TextValue("/~")
    assert scope.variable_value("0") == TextValue("sh")
    assert scope.variable_value("y") is None


def test_files_keep_content_and_origin() -> None:
    scope = ShellState("/desk")
    scope.write_file("x", TextValue("a"))
    scope.write_file("./x", TextValue("b", taints=frozenset({Taint.SECRET})), append=True)

    assert scope.files["/desk/x"] == TextValue("ab", taints=frozenset({Taint.SECRET}))
    assert scope.resolve_path("") == "/desk"
