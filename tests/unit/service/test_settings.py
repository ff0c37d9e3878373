import pytest

from demur.errors import InputError
from demur.listener import is_loopback
from demur.service.settings import ServiceSettings, read_settings


def test_arguments_override_the_file_unless_they_are_none() -> None:
    settings = read_settings({"port": 1, "rate": 5}, port=2, host=None)

    assert settings == ServiceSettings(port=2, rate=5)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"anchor": "anchors.jsonl"}, "service.anchor_key"),
        ({"prot": 1}, "service"),
        ({"port": 70_000}, "service.port"),
        ({"timeout_s": 0}, "service.timeout_s"),
        ({"hosts": ["a", 1]}, "service.hosts[1]"),
        ({"key_memory_s": 0}, "service.key_memory_s"),
        ({"runs": "a\0b"}, "service.runs"),
        ({"runs": ["a"]}, "service.runs"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(given: dict[str, object], where: str) -> None:
    with pytest.raises(InputError) as caught:
        read_settings(given)

    assert caught.value.where == where
    assert caught.value.problem[0].islower()


@pytest.mark.parametrize(
    ("host", "near"),
    [
        ("localhost", True),
        ("LOCALHOST", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),  # noqa: S104 - what must not pass for loopback
        ("localhost.example", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_only_loopback_is_loopback(host: str, near: bool) -> None:
    assert is_loopback(host) is near
