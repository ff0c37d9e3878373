from demur.guards.code_execution.names import split_names


def test_names_are_words() -> None:
    assert split_names(" a b\n  c ") == ("a", "b", "c")
