import ast

from demur.guards.skill.bundle import SkillConfig
from demur.guards.skill.document import SourceText
from demur.guards.skill.python_source import PythonSource


def source(text: str) -> PythonSource:
    return PythonSource(SourceText("a.py", text), SkillConfig())


def test_calls_come_in_the_order_of_the_file_with_outer_ones_first() -> None:
    found = source("import os\nos.path.join(os.getcwd())()\nopen('x')").calls

    assert [path for _, path in found] == [None, "os.path.join", "os.getcwd", "open"]


def test_a_quote_is_one_short_line() -> None:
    one = source("call(\n  'a',\n  'b')\n" + f"call('{'x' * 99}')")
    short, long = (one.quote_source(call) for call, _ in one.calls)

    assert short == "call( 'a', 'b')"
    assert long.endswith("…")
    assert len(long) == 61


def test_a_sighting_of_a_whole_file_is_at_its_start() -> None:
    one = source("x = 1")

    assert one.make_hit("RULE", one.tree, "detail")[1:3] == (0, 0)
    assert one.constant_text(ast.Constant(3)) is None
