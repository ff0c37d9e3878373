from typing import Any

import pytest

from demur.service.cookies import CallOrigin, cookie_name, make_cookie, read_cookie, read_origin
from demur.service.settings import parse_networks

PROXIES = parse_networks(["10.0.0.0/24", "fd00::1"])


def origin(headers: dict[str, str], client: str = "10.0.0.5", **more: Any) -> CallOrigin:
    scope = {"client": (client, 1), "scheme": "http"}
    return read_origin(scope, headers, more.get("proxies", PROXIES), behind_tls=False)


@pytest.mark.parametrize(
    ("headers", "client", "address", "is_secure"),
    [
        ({}, "10.0.0.5", "10.0.0.5", False),
        ({"x-forwarded-proto": "https"}, "10.0.0.5", "10.0.0.5", True),
        ({"x-forwarded-proto": "https"}, "fd00::1", "fd00::1", True),
        ({"x-forwarded-proto": "https, http"}, "10.0.0.5", "10.0.0.5", False),
        ({"x-forwarded-for": "1.2.3.4"}, "10.0.0.5", "1.2.3.4", False),
        ({"x-forwarded-for": "6.6.6.6, 1.2.3.4, 10.0.0.6"}, "10.0.0.5", "1.2.3.4", False),
        ({"x-forwarded-for": "10.0.0.7"}, "10.0.0.5", "10.0.0.7", False),
        ({"x-forwarded-for": "6.6.6.6, [2001:db8::1]"}, "10.0.0.5", "2001:db8::1", False),
        # Others can write what they like.
        ({"x-forwarded-proto": "https", "x-forwarded-for": "1.2.3.4"}, "8.8.8.8", "8.8.8.8", False),
        ({"x-forwarded-proto": "https"}, "somewhere", "somewhere", False),
    ],
)
def test_only_a_trusted_proxy_says_how_a_call_came(
    headers: dict[str, str], client: str, address: str, is_secure: bool
) -> None:
    assert origin(headers, client) == CallOrigin(address, is_secure)


def test_without_proxies_nothing_that_is_forwarded_counts() -> None:
    headers = {"x-forwarded-proto": "https", "x-forwarded-for": "1.2.3.4"}

    assert origin(headers, proxies=()) == CallOrigin("10.0.0.5")


def test_a_service_behind_tls_is_always_secure() -> None:
    assert read_origin({"client": None}, {}, (), behind_tls=True) == CallOrigin("", True)
    assert read_origin({"scheme": "https"}, {}, (), behind_tls=False).is_secure


def test_a_cookie_over_tls_is_bound_to_the_host() -> None:
    plain = make_cookie("demur_session", "a", is_secure=False)
    secure = make_cookie("demur_session", "a", is_secure=True)

    assert plain == "demur_session=a; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"
    assert secure == f"__Host-{plain}; Secure"


def test_over_tls_no_cookie_of_a_plain_connection_counts() -> None:
    headers = {"cookie": "demur_session=planted; __Host-demur_session=own"}

    assert read_cookie(headers, "demur_session", is_secure=True) == "own"
    assert read_cookie(headers, "demur_session") == "planted"
    assert not read_cookie({"cookie": "demur_session=x"}, "demur_session", is_secure=True)
    assert cookie_name("a", is_secure=True) == "__Host-a"


def test_a_cookie_that_cannot_be_read_is_none() -> None:
    assert read_cookie({"cookie": "a b=c; \x01; a"}, "a") == ""
    assert read_cookie({}, "a") == ""
    assert read_cookie({"cookie": "a=b%20c"}, "a") == "b c"
