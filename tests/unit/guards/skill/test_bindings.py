import ast

import pytest

from demur.guards.skill.bindings import BindingCollector


def bound(text: str) -> set[tuple[str, str, str]]:
    """Return scope (without its line), name and value of each binding."""
    return {
        (binding.key.scope.partition(":")[0], binding.key.name, ast.unparse(binding.value))
        for binding in BindingCollector().collect_bindings(ast.parse(text))
    }


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a = b = c", {("", "a", "c"), ("", "b", "c")}),
        ("a, (b, *c) = d", {("", "a", "d"), ("", "b", "d"), ("", "c", "d")}),
        ("a, b = 1, 2", {("", "a", "1"), ("", "b", "2")}),
        ("a.b['c'] = d", {("", "a", "d")}),
        ("self.a = b", {("", ".a", "b")}),
        ("a: int", set()),
        ("f()[0] = 1", set()),
        ("a.append(b)", {("", "a", "b")}),
        ("a.remove(b)", set()),
        ("def f():\n    return a", {("/f", "return", "a")}),
        ("def f():\n    return", set()),
        ("with a as b: pass", {("", "b", "a")}),
        ("with a: pass", set()),
    ],
)
def test_which_variable_takes_which_value(text: str, wanted: set[tuple[str, str, str]]) -> None:
    assert bound(text) == wanted


def test_of_two_functions_with_one_name_none_is_known() -> None:
    binder = BindingCollector()
    list(binder.collect_bindings(ast.parse("def f(): ...\ndef f(): ...\nasync def g(): ...")))

    assert binder.functions["f"] is None
    assert binder.functions["g"] is not None
