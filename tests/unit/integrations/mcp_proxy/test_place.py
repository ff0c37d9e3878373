import pytest

from demur.integrations.mcp_proxy.place import is_loopback, read_headers, check_place


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "localhost:80"},
        {"host": "LOCALHOST"},
        {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:8080"},
        {"host": "[::1]:8080", "origin": "http://[::1]:8080"},
        {"host": "192.168.0.7:80"},
        {"host": "mine.example"},
        {"host": "localhost", "sec-fetch-site": "same-origin"},
    ],
    ids=str,
)
def test_calls_for_us_are_taken(headers: dict[str, str]) -> None:
    assert check_place(headers, {"mine.example"}) is None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 421),
        ({"host": "evil.example"}, 421),
        ({"host": "localhost.evil.example:80"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "[::1"}, 421),
        ({"host": "[::1]evil.example"}, 421),
        ({"host": "127.0.0.1:80:80"}, 421),
        ({"host": "localhost", "origin": "http://evil.example"}, 403),
        ({"host": "localhost:80", "origin": "http://localhost:81"}, 403),
        ({"host": "localhost", "origin": "null"}, 403),
        ({"host": "localhost", "origin": ""}, 403),
        ({"host": "localhost", "origin": "file://localhost"}, 403),
        ({"host": "localhost", "sec-fetch-site": "same-site"}, 403),
    ],
    ids=str,
)
def test_calls_in_other_names_or_from_other_sites_are_not(
    headers: dict[str, str], status: int
) -> None:
    wrong = check_place(headers, {"mine.example"})

    assert wrong is not None
    assert wrong[0] == status


def test_a_header_that_counts_may_not_come_twice() -> None:
    assert read_headers([(b"Host", b"a"), (b"x", b"1"), (b"x", b"2")]) == {"host": "a", "x": "2"}
    assert read_headers([(b"host", b"a"), (b"HOST", b"b")]) is None


@pytest.mark.parametrize(
    ("host", "near"),
    [("localhost", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", False), ("a", False)],  # noqa: S104 - a word
)
def test_this_machine_is_known(host: str, near: bool) -> None:
    assert is_loopback(host) is near
