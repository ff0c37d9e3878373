import asyncio
from typing import Any

import msgspec
import pytest
from support.service_app import Caller, open_service

from demur.errors import InputError
from demur.service.authentication import LOCAL, Principal, Role
from demur.service.calls import (
    SECURITY_HEADERS,
    ApiCall,
    QueryField,
    check_host,
    check_origin,
    is_forwarded,
    json_answer,
    read_body,
    read_headers,
    read_query,
    read_token,
    safe_headers,
    with_security,
)
from demur.service.problem import ProblemError
from demur.service.routes import ROUTES


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    number: int
    name: str = ""

    def __post_init__(self) -> None:
        if self.name == "bad":
            raise InputError("a bad name", where="name", help="take another")


def call(body: bytes = b"", caller: Principal = LOCAL, **query: str) -> ApiCall:
    service: Any = None
    return ApiCall(service, caller, {}, query, body)


def refused(made: ApiCall, kind: type[Any] = Body) -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        made.decode_body(kind)
    return caught.value


def test_a_body_is_read_as_its_type() -> None:
    assert call(b'{"number": 1}').decode_body(Body) == Body(number=1)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1", b"\xff", b'{"number": NaN}', b"[" * 100_000, b'"\\ud800', b"nul"]
)
def test_invalid_json_is_a_400(body: bytes) -> None:
    assert refused(call(body), object).status == 400


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b"{}", None),
        (b'{"number": "1"}', "number"),
        (b'{"number": 1, "more": 2}', "more"),
        (b'{"number": 1.5}', "number"),
        (b"[]", None),
    ],
)
def test_json_of_another_shape_is_a_422_that_names_the_part(body: bytes, where: str | None) -> None:
    error = refused(call(body))

    assert (error.status, error.where) == (422, where)
    assert error.problem[0].islower()


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b'{"number": 1, "number": 2}', "number"),
        (b'{"number": 1, "n\\u0075mber": 1}', "number"),
        (b'{"a": [{"b": 1}, {"c": {"b": 1, "b": 1}}]}', "a[1].c.b"),
        (b'[[{"": 0, "": 1}]]', "[0][0]."),
        (b'{"a": {"b": 1}, "b": 2, "a": 3}', "a"),
    ],
)
def test_a_duplicate_key_is_refused_with_its_place(body: bytes, where: str) -> None:
    error = refused(call(body), object)

    assert (error.status, error.problem, error.where) == (422, "duplicate key", where)


def test_equal_keys_of_different_objects_are_no_duplicates() -> None:
    body = b'{"a": {"a": 1, "b": [{"a": 1}, {"a": 2}]}, "b": "\\"a\\": 1"}'

    assert call(body).decode_body(dict)["a"]["a"] == 1


def test_a_body_that_is_nested_too_deeply_says_so() -> None:
    assert refused(call(b"[" * 100_000), object).problem == "the body is nested too deeply"


def test_a_validation_error_of_a_value_is_passed_on() -> None:
    error = refused(call(b'{"number": 1, "name": "bad"}'))

    assert (error.status, error.problem, error.where) == (422, "a bad name", "name")
    assert error.help == "take another"


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("500", 500), ("007", 7)])
def test_a_number_of_the_query(text: str, number: int) -> None:
    assert call(limit=text).read_number("limit", 50, maximum=500) == number
    assert call().read_number("limit", 50, maximum=500) == 50


@pytest.mark.parametrize(
    "text", ["", "0", "501", "-1", "1.5", "x", "9" * 5000, "0" * 20 + "1", "٣"]
)
def test_an_invalid_query_number_is_refused(text: str) -> None:
    with pytest.raises(ProblemError, match=r"no number|limit"):
        call(limit=text).read_number("limit", 50, maximum=500)


def test_only_a_key_of_all_tenants_may_name_one() -> None:
    own = Principal("k", "acme", frozenset({Role.READ}))

    assert call().chosen_tenant() is None
    assert call(tenant="other").chosen_tenant() == "other"
    assert call(caller=own).chosen_tenant() == "acme"
    assert call(caller=own, tenant="acme").chosen_tenant() == "acme"
    with pytest.raises(ProblemError) as caught:
        call(caller=own, tenant="other").chosen_tenant()
    assert caught.value.status == 403


def test_an_answer_is_json_with_its_headers() -> None:
    given = json_answer({"a": 1}, 201, x_more="1")

    assert (given.content, given.status, given.headers) == (b'{"a":1}', 201, {"x_more": "1"})


def test_a_caller_can_be_constructed() -> None:
    with open_service() as caller:
        assert isinstance(caller, Caller)


DECIDE = next(route for route in ROUTES if route.name == "decide")
REPLAY = next(route for route in ROUTES if route.name == "replay decision")
JSON = {"content-type": "application/json; charset=utf-8"}


def read(
    *messages: dict[str, Any],
    headers: dict[str, str] | None = None,
    route: Any = DECIDE,
    wait: bool = False,
) -> bytes:
    left = iter(messages)

    async def receive() -> dict[str, Any]:
        if wait:
            await asyncio.sleep(60)
        return next(left)

    found = JSON if headers is None else headers
    return asyncio.run(read_body(route, found, receive, 10, 0.05))


def refused_body(*messages: dict[str, Any], **more: Any) -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        read(*messages, **more)
    assert caught.value.headers["connection"] == "close"
    return caught.value


def part(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_is_read_in_one_piece_or_in_many() -> None:
    assert read(part(b"0123456789")) == b"0123456789"
    assert read(part(b"01", more=True), {"type": "http.request"}) == b"01"
    assert read(part(b"01", more=True), part(b"23")) == b"0123"


def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    assert refused_body(headers={**JSON, "content-length": "11"}).status == 413
    assert refused_body(headers={**JSON, "content-length": "9" * 400}).status == 413


def test_a_body_that_is_too_large_without_a_word_is_cut_off() -> None:
    assert refused_body(part(b"0" * 6, more=True), part(b"0" * 6, more=True)).status == 413


@pytest.mark.parametrize("headers", [{}, {"content-type": "text/plain"}, {"content-type": ";"}])
def test_a_body_of_another_type_is_refused(headers: dict[str, str]) -> None:
    assert refused_body(headers=headers).status == 415


def test_a_route_without_a_body_takes_any_and_ignores_it() -> None:
    assert read(part(b"x"), headers={}, route=REPLAY) == b"x"


def test_a_log_may_be_text_or_bytes() -> None:
    route = DECIDE._replace(log=True)

    assert read(part(b"x"), headers={"content-type": "text/plain"}, route=route) == b"x"
    assert refused_body(headers={"content-type": "image/png"}, route=route).status == 415


def test_a_slow_body_times_out() -> None:
    assert refused_body(part(b""), wait=True).status == 408


def test_a_body_that_breaks_off_is_refused() -> None:
    assert refused_body({"type": "http.disconnect"}).status == 400


KNOWN = (QueryField("verdict", "", {"enum": ["ALLOW", "DENY"]}), QueryField("code", ""))


def test_a_query_is_read() -> None:
    assert read_query(b"") == {}
    assert read_query(b"code=a%20b&verdict=DENY", KNOWN) == {"code": "a b", "verdict": "DENY"}
    assert read_query(b"anything=1") == {"anything": "1"}
    assert read_query(b"code=", KNOWN) == {"code": ""}


@pytest.mark.parametrize(
    ("raw", "status", "told"),
    [
        (b"verdit=DENY", 422, "did you mean `verdict`?"),
        (b"zzzzzz=1", 422, "one of verdict, code"),
        (b"verdict=NO", 422, "one of ALLOW, DENY"),
        (b"verdict=", 422, "one of ALLOW, DENY"),
        (b"code=a&code=b", 422, None),
        (b"code=%00", 422, None),
        (b"code=%0d%0aset-cookie:x", 422, None),
        (b"code=" + b"x" * 501, 422, None),
        (b"&".join(b"code=1" for _ in range(51)), 400, None),
    ],
)
def test_a_query_that_cannot_be_used_is_refused(raw: bytes, status: int, told: str | None) -> None:
    with pytest.raises(ProblemError) as caught:
        read_query(raw, KNOWN)

    assert (caught.value.status, caught.value.help) == (status, told)


def test_a_route_without_parameters_says_so() -> None:
    with pytest.raises(ProblemError) as caught:
        read_query(b"zzzzzz=1", ())

    assert caught.value.help == "one of none"


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
        ({"cookie": "demur_key=abc"}, None),
        ({"authorization": "Bearer abc", "cookie": "demur_session=def"}, "abc"),
    ],
)
def test_a_key_comes_as_bearer_and_never_as_cookie(
    headers: dict[str, str], token: str | None
) -> None:
    assert read_token(headers) == token


def test_a_forwarded_request_is_recognised() -> None:
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
