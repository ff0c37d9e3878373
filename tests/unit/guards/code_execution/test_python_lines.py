import ast

from demur.guards.code_execution.python_lines import NodePlaces


def test_places_count_characters_not_bytes() -> None:
    text = "é = 1; f('ü')\r\ng('x')"
    lines = NodePlaces(text)
    first, second = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))

    assert [text[slice(*lines.node_span(node))] for node in (first, second)] == ["f('ü')", "g('x')"]


def test_a_plain_string_stands_behind_its_quotes() -> None:
    text = "f('ab', r'cd', '''ef''', 'g\\n')"
    lines = NodePlaces(text)
    [call] = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    inside = [lines.string_offset(arg, str(ast.literal_eval(arg))) for arg in call.args]

    assert inside == [3, 10, 18, None]
