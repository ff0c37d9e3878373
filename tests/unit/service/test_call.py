from typing import Any

import msgspec
import pytest
from served import Caller, served

from demur.errors import InputError
from demur.service.access import LOCAL, Principal, Role
from demur.service.call import ApiCall, json_answer
from demur.service.problem import ProblemError


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
def test_what_is_no_json_is_a_400(body: bytes) -> None:
    assert refused(call(body), object).status == 400


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b"{}", None),
        (b'{"number": "1"}', "number"),
        (b'{"number": 1, "more": 2}', None),
        (b'{"number": 1.5}', "number"),
        (b"[]", None),
    ],
)
def test_json_of_another_shape_is_a_422_that_names_the_part(body: bytes, where: str | None) -> None:
    error = refused(call(body))

    assert (error.status, error.where) == (422, where)
    assert error.problem[0].islower()


def test_what_a_value_says_against_itself_is_passed_on() -> None:
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
def test_what_is_no_number_of_the_query_is_refused(text: str) -> None:
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


def test_a_caller_can_be_made() -> None:
    with served() as caller:
        assert isinstance(caller, Caller)
