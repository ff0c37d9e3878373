import pytest
from support.dashboard_site import HTML, Page, Site, site_of
from support.gates import Ticking, gate_over, opened, refund
from support.service_app import add_key

from demur.service.dashboard.frame import (
    cached_result,
    is_local_path,
    parse_form,
    parse_uploaded_file,
)
from demur.service.problem import ProblemError
from demur.service.service import Service
from demur.store.backend import StorageError
from demur.store.opening import open_store


def test_a_lost_browser_gets_a_page_and_a_program_a_problem(site: Site) -> None:
    page = site.open("/nowhere", 404)
    program = site.call("GET", "/nowhere")

    assert "no such page" in page.text
    assert program.status_code == 404
    assert program.headers["content-type"] == "application/problem+json"
    assert site.call("POST", "/nowhere", headers=HTML).status_code == 404
    assert site.get("/v1/nowhere").headers["content-type"] == "application/problem+json"


def menu(page: Page) -> set[str]:
    """Return where the menu and its form of tenants lead, without the switch of zones."""
    [top] = page.all("header")
    leads = {one.attrs.get("href") or one.attrs["action"] for one in top.all("a", "form")}
    return {one for one in leads if "zone=" not in one}


def test_an_error_page_has_the_whole_menu_of_its_caller(site: Site) -> None:
    usual = menu(site.open("/codes"))

    assert {"/evals", "/tenant"} <= usual
    assert menu(site.open("/nowhere", 404)) == usual
    assert menu(site.open("/reasons/NO_SUCH_CODE", 404)) == usual


def test_an_error_page_tells_a_stranger_nothing_of_tenants() -> None:
    with gate_over(open_store(":memory:")) as gate:
        assert gate.store is not None
        gate.decide(refund(), tenant="acme")
        add_key(gate.store, "acme", "read")
        with site_of(gate) as site:
            page = site.open("/nowhere", 404)

    assert not {"/evals", "/tenant"} & menu(page)
    assert "acme" not in page.text


def test_a_page_answers_no_other_method(site: Site) -> None:
    assert site.call("DELETE", "/decisions", headers=HTML).status_code == 405
    assert site.call("HEAD", "/decisions", headers=HTML).content == b""


def test_an_error_page_names_the_code_and_keeps_its_headers(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise StorageError("disk on fire")

    monkeypatch.setattr(site.call.store, "list_heads", lost)
    answer = site.get("/")

    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert "STORAGE_UNAVAILABLE" in answer.text
    assert "disk on fire" not in answer.text
    assert "Codes" in site.open("/codes").text


def test_a_service_without_a_store_says_so() -> None:
    with gate_over(None) as gate, site_of(gate) as site:
        assert "this service stores no decisions" in site.open("/", 503).text
        assert "Codes" in site.open("/codes").text


def test_pages_say_where_forms_come_from_and_allow_no_inline_code(site: Site) -> None:
    headers = site.get("/").headers

    assert headers["referrer-policy"] == "same-origin"
    assert "script-src 'self'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("text", ["//a.example", "/\\a.example", "https://a.example", "", "/a\nb"])
def test_only_paths_of_this_service_are_led_to(text: str) -> None:
    assert not is_local_path(text)


def test_many_tenants_do_not_fill_the_page() -> None:
    store = open_store(":memory:")
    with gate_over(store) as gate, site_of(gate) as site:
        for number in range(210):
            gate.decide({"action": {"type": "x"}}, tenant=f"t{number:03}")
        page = site.open("/codes")

    [choice] = [one for one in page.all("select") if one.attrs["id"] == "tenant"]
    assert len(choice.all("option")) == 201


TYPE = "multipart/form-data; boundary=edge"


def part(head: str, content: bytes) -> bytes:
    return b"--edge\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n"


def test_fields_of_a_form_are_read() -> None:
    assert parse_form(b"a=1+2&b=&c=%3Cx%3E") == {"a": "1 2", "b": "", "c": "<x>"}


@pytest.mark.parametrize("body", [b"\xff", b"&".join([b"a=1"] * 50)])
def test_a_malformed_form_is_refused(body: bytes) -> None:
    with pytest.raises(ProblemError, match="not a form"):
        parse_form(body)


def test_a_form_with_a_field_twice_is_refused() -> None:
    with pytest.raises(ProblemError, match="occurs twice"):
        parse_form(b"value=good&note=&value=missed_harm")


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


def test_a_recent_result_is_cached_per_service() -> None:
    clock = Ticking()
    made: list[int] = []
    with opened() as gate:
        service, other = Service(gate, clock=clock), Service(gate, clock=clock)

        def make() -> int:
            made.append(1)
            return len(made)

        assert [cached_result(service, "a", 5, make) for _ in range(2)] == [1, 1]
        assert cached_result(service, "b", 5, make) == 2
        assert cached_result(other, "a", 5, make) == 3
        clock.advance(seconds=6)
        assert cached_result(service, "a", 5, make) == 4
        for number in range(1001):
            cached_result(service, number, 5, make)
        assert cached_result(service, "a", 5, make) > 1000
        service.close()
        other.close()
