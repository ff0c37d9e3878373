import pytest

from demur.integrations.mcp_proxy.naming import server_name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("files-server", "files-server"),
        ("/usr/bin/python3.12 /srv/weather.py --token s3cret", "weather"),
        ("python -m mcp_server_git", "mcp_server_git"),
        ("npx -y @acme/server-files /data", "server-files"),
        ("uv run server.py", "server"),
        ("docker run -i --rm acme/db", "db"),
        ("python", "python"),
        ("--odd", "server"),
    ],
)
def test_a_server_is_named_by_its_program(command: str, name: str) -> None:
    assert server_name(command.split()) == name


def test_a_server_at_an_address_is_named_by_its_host() -> None:
    assert server_name([], "https://user:pass@mcp.example.com:8080/x?token=1") == "mcp.example.com"
    assert server_name([], "nonsense") == "server"


def test_a_name_is_plain() -> None:
    assert server_name(["a\nb c"]) == "a-b-c"
    assert server_name([]) == "server"
