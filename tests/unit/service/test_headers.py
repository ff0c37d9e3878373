import pytest

from demur.service.headers import (
    SECURITY_HEADERS,
    check_host,
    check_origin,
    is_forwarded,
    read_headers,
    safe_headers,
    read_token,
    with_security,
)
from demur.service.problem import ProblemError


def test_headers_are_read_by_name() -> None:
    raw = [(b"host", b"a"), (b"x", b"1"), (b"x", b"2")]

    assert read_headers(raw) == {"host": "a", "x": "2"}


@pytest.mark.parametrize("name", [b"host", b"authorization", b"cookie", b"content-length"])
def test_a_header_that_counts_comes_once(name: bytes) -> None:
    with pytest.raises(ProblemError) as caught:
        read_headers([(name, b"a"), (name, b"b")])

    assert (caught.value.status, caught.value.where) == (400, name.decode())


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({}, None),
        ({"authorization": "Bearer abc"}, "abc"),
        ({"authorization": "bearer  abc "}, "abc"),
        ({"authorization": "Bearer "}, None),
        ({"authorization": "Basic abc"}, None),
        ({"cookie": "a=1; demur_key=abc; b=2"}, "abc"),
        ({"cookie": "demur_key="}, None),
        ({"cookie": "xdemur_key=abc"}, None),
        ({"cookie": ";;=;"}, None),
        ({"authorization": "Bearer abc", "cookie": "demur_key=def"}, "abc"),
    ],
)
def test_a_key_comes_as_bearer_or_as_cookie(headers: dict[str, str], token: str | None) -> None:
    assert read_token(headers) == token


def test_what_another_machine_passed_on_is_told_apart() -> None:
    assert is_forwarded({"x-forwarded-for": "1.2.3.4"})
    assert not is_forwarded({"host": "localhost"})


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:80", "127.0.0.1:1", "[::1]:8642", "::1", "10.0.0.7:80", "demur.test"],
)
def test_the_service_answers_to_its_names_and_to_addresses(host: str) -> None:
    check_host(host, {"demur.test"})


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "demur.test.evil", ":"]
)
def test_the_service_answers_to_no_other_name(host: str) -> None:
    with pytest.raises(ProblemError) as caught:
        check_host(host, {"demur.test"})

    assert caught.value.status == 421


@pytest.mark.parametrize(
    ("site", "origin"),
    [
        ("", ""),
        ("same-origin", "http://localhost:1"),
        ("none", ""),
        ("", "https://LOCALHOST:1"),
    ],
)
def test_a_page_of_its_own_may_ask_for_changes(site: str, origin: str) -> None:
    check_origin("POST", site, origin, "localhost:1")


@pytest.mark.parametrize(
    ("site", "origin"),
    [
        ("cross-site", ""),
        ("same-site", ""),
        ("", "http://evil.example"),
        ("", "null"),
        ("", "http://localhost:2"),
    ],
)
def test_a_page_of_another_site_may_not(site: str, origin: str) -> None:
    check_origin("GET", site, origin, "localhost:1")
    with pytest.raises(ProblemError) as caught:
        check_origin("POST", site, origin, "localhost:1")

    assert caught.value.status == 403


def test_no_value_can_begin_another_header() -> None:
    [(name, value)] = safe_headers({"Content_Disposition": 'a"\r\nset-cookie: x=1\0é\u4e00'})

    assert name == b"content-disposition"
    assert value == b'a"set-cookie: x=1\xe9?'


def test_every_answer_is_guarded_but_may_say_more_itself() -> None:
    headers = with_security([(b"cache-control", b"max-age=60")])

    assert (b"cache-control", b"max-age=60") in headers
    assert [name for name, _ in headers].count(b"cache-control") == 1
    assert {name for name, _ in SECURITY_HEADERS} <= {name for name, _ in headers}
    assert b"unsafe" not in dict(SECURITY_HEADERS)[b"content-security-policy"]
