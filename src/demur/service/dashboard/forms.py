"""Parse the fields and files of forms."""

from urllib.parse import parse_qsl

from demur.service.problem import invalid_request

__all__ = ["parse_uploaded_file", "parse_form"]

_MAX_FORM_FIELDS = 20


def parse_form(body: bytes) -> dict[str, str]:
    """Return the fields of a form.

    Raises:
        ProblemError: The body is no form.
    """
    try:
        text = body.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FORM_FIELDS))
    except ValueError:
        raise invalid_request(400, "the body is not a form") from None


def parse_uploaded_file(body: bytes, content_type: str) -> tuple[str, bytes]:
    """Return the name and the content of the first file in a form.

    Raises:
        ProblemError: The form contains no file.
    """
    kind, _, rest = content_type.partition(";")
    _, found, boundary = rest.partition("boundary=")
    if kind.strip().lower() != "multipart/form-data" or not found:
        raise invalid_request(415, "a file must be sent as multipart/form-data", "content-type")
    edge = b"--" + boundary.strip().strip('"').encode("latin-1")
    for part in body.split(edge, _MAX_FORM_FIELDS)[1:-1]:
        head, split, content = part.partition(b"\r\n\r\n")
        name = _file_name(head)
        if split and name is not None:
            return name, content.removesuffix(b"\r\n")
    raise invalid_request(400, "the form contains no file")


def _file_name(head: bytes) -> str | None:
    _, found, rest = head.partition(b'filename="')
    return rest.partition(b'"')[0].decode("utf-8", "replace")[:200] if found else None
