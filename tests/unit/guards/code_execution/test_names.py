from demur.guards.code_execution.names import names


def test_names_are_words() -> None:
    assert names(" a b\n  c ") == ("a", "b", "c")
