"""What a shell remembers."""

from demur.guards.code_execution.scope import Scope
from demur.guards.code_execution.value import Taint, Value


def test_variables_positions_and_what_every_shell_sets() -> None:
    scope = Scope("/desk")
    scope.assign("x", Value("1"))
    scope.positional = (Value("a"),)

    assert scope.variable("x") == Value("1")
    assert scope.variable("1") == Value("a")
    assert scope.variable("2") is None
    assert scope.variable("PWD") == Value("/desk")
    assert scope.variable("HOME") == Value("/~")
    assert scope.variable("0") == Value("sh")
    assert scope.variable("y") is None


def test_files_keep_content_and_origin() -> None:
    scope = Scope("/desk")
    scope.write("x", Value("a"))
    scope.write("./x", Value("b", taints=frozenset({Taint.SECRET})), append=True)

    assert scope.files["/desk/x"] == Value("ab", taints=frozenset({Taint.SECRET}))
    assert scope.path("") == "/desk"
