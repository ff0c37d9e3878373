import pytest

from demur.guards.skill.bundle import SkillConfig


@pytest.mark.parametrize(
    ("module", "allowed"),
    [("http", True), ("http.client", True), ("httpx", False), ("subprocess", False)],
)
def test_an_allowed_module_covers_what_is_below_it(module: str, allowed: bool) -> None:
    assert SkillConfig(allow_imports=("http",)).allows_import(module) is allowed


@pytest.mark.parametrize(
    ("host", "allowed"),
    [("example.com", True), ("api.example.com", True), ("badexample.com", False), ("", False)],
)
def test_an_allowed_host_covers_the_names_below_it(host: str, allowed: bool) -> None:
    assert SkillConfig(allow_hosts=("example.com",)).allows_host(host) is allowed
