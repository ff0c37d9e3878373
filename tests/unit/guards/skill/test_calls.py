import pytest

from demur.guards.skill.calls import SECRET_NAME, SECRET_PLACE, STARTUP_PLACE, is_network


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("requests.get", True),
        ("requests", True),
        ("urllib.request.urlopen", True),
        ("urllib.parse.quote", False),
        ("requests_mock.get", False),
        ("socket.gethostname", False),
        (None, False),
    ],
)
def test_which_names_reach_other_machines(path: str | None, wanted: bool) -> None:
    assert is_network(path) is wanted


@pytest.mark.parametrize(
    "path",
    ["~/.ssh/id_rsa", "/root/.aws/credentials", "C:\\Users\\me\\.ssh\\id_ed25519", "~/.netrc"],
)
def test_where_secrets_lie(path: str) -> None:
    assert SECRET_PLACE.search(path)


@pytest.mark.parametrize("path", ["id_rsa.pub", "docs/ssh.md", "config.json", "report.aws.txt"])
def test_where_none_lie(path: str) -> None:
    assert not SECRET_PLACE.search(path)


def test_which_settings_hold_a_credential() -> None:
    assert SECRET_NAME.search("GITHUB_TOKEN")
    assert not SECRET_NAME.search("HOME")


def test_what_runs_at_each_start() -> None:
    assert STARTUP_PLACE.search("/home/me/.bashrc")
    assert not STARTUP_PLACE.search("docs/bashrc.md")
