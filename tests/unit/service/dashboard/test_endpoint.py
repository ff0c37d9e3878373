import pytest
from dashboard_site import HTML, Site, site_of
from gates import gate_over

from demur.service.dashboard.frame import read_cookie, is_local_path
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


def test_a_cookie_that_cannot_be_read_is_none() -> None:
    assert read_cookie({"cookie": "a b=c; \x01; a"}, "a") == ""
    assert read_cookie({}, "a") == ""
    assert read_cookie({"cookie": "a=b%20c"}, "a") == "b c"


def test_many_tenants_do_not_fill_the_page() -> None:
    store = open_store(":memory:")
    with gate_over(store) as gate, site_of(gate) as site:
        for number in range(210):
            gate.decide({"action": {"type": "x"}}, tenant=f"t{number:03}")
        page = site.open("/codes")

    assert len(page.all("option")) == 201
