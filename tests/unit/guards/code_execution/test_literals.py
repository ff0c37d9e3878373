from demur.guards.code_execution.literals import SecretLiteral, find_secret_literals


def test_credentials_are_named_by_kind_and_place() -> None:
    text = "API_KEY=9f8e7d6c5b4a39281706f5e4d3c2b1a0 ./run"
    [found] = find_secret_literals(text)

    assert found == SecretLiteral("assigned secret", 8, 40, certain=True)
    assert list(find_secret_literals("ls")) == []
    assert list(find_secret_literals("export API_KEY=$(cat /run/secrets/key)")) == []
