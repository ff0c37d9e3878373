import pytest

from demur.service.dashboard.forms import parse_uploaded_file, parse_form
from demur.service.problem import ProblemError

TYPE = "multipart/form-data; boundary=edge"


def part(head: str, content: bytes) -> bytes:
    return b"--edge\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n"


def test_fields_of_a_form_are_read() -> None:
    assert parse_form(b"a=1+2&b=&c=%3Cx%3E") == {"a": "1 2", "b": "", "c": "<x>"}


@pytest.mark.parametrize("body", [b"\xff", b"&".join([b"a=1"] * 50)])
def test_what_is_no_form_is_refused(body: bytes) -> None:
    with pytest.raises(ProblemError, match="not a form"):
        parse_form(body)


def test_the_first_file_is_taken_with_all_its_bytes() -> None:
    content = b"one\r\n\r\ntwo\xff\r\n"
    body = (
        part('Content-Disposition: form-data; name="x"', b"1")
        + part('Content-Disposition: form-data; name="log"; filename="a.log"', content)
        + b"--edge--\r\n"
    )

    assert parse_uploaded_file(body, TYPE) == ("a.log", content)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"", "text/plain", 415),
        (b"", "multipart/form-data", 415),
        (b"--edge--\r\n", TYPE, 400),
        (part('Content-Disposition: form-data; name="x"', b"1") + b"--edge--", TYPE, 400),
    ],
)
def test_a_form_without_a_file_is_refused(body: bytes, kind: str, status: int) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_uploaded_file(body, kind)

    assert caught.value.status == status
