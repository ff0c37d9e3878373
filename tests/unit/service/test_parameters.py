import pytest

from demur.service.parameters import read_query
from demur.service.problem import ProblemError
from demur.service.route import QueryParameter

KNOWN = (QueryParameter("verdict", "", {"enum": ["ALLOW", "DENY"]}), QueryParameter("code", ""))


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
