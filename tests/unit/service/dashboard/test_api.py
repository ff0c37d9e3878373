from support.dashboard_site import Page, Site

from demur.service.dashboard.api import describe_api
from demur.service.routes import ROUTES


def test_every_operation_of_the_api_is_on_the_page(site: Site) -> None:
    page = site.open("/docs")
    forms = {
        (one.attrs["data-method"], one.attrs["data-path"])
        for one in page.all("form")
        if "data-operation" in one.attrs
    }

    assert len(forms) == len(ROUTES)
    assert ("GET", "/v1/codes/{code}") in forms
    assert ("GET", "/healthz") in forms


def form_of(page: Page, method: str, path: str) -> dict[str, dict[str, str]]:
    [form] = [
        one
        for one in page.all("form")
        if (one.attrs.get("data-method"), one.attrs.get("data-path")) == (method, path)
    ]
    return {one.attrs["name"]: one.attrs for one in form.all("input", "select", "textarea")}


def test_a_form_has_a_field_for_each_parameter_and_the_example_as_its_body(site: Site) -> None:
    page = site.open("/docs")
    code = form_of(page, "GET", "/v1/codes/{code}")
    stats = form_of(page, "GET", "/v1/stats")
    [body] = [one for one in page.all("textarea") if one.attrs["id"] == "b-decide"]

    assert code["code"]["data-in"] == "path"
    assert "required" in code["code"]
    # The name of an organisation's code has a slash, which stays one.
    assert "data-slashes" in code["code"]
    assert stats["hours"]["data-in"] == "query"
    assert "required" not in stats["hours"]
    assert '"request"' in body.text


def test_a_form_says_which_role_its_call_needs(site: Site) -> None:
    [health] = [one for one in site.open("/docs").all("details") if one.attrs["id"] == "health"]
    [stats] = [one for one in site.open("/docs").all("details") if one.attrs["id"] == "stats"]

    assert "needs no key" in health.text
    assert "needs the role read" in stats.text


def test_types_that_operations_name_are_explained() -> None:
    api = describe_api(ROUTES)
    known = {one.name for one in api.schemas}
    named = {
        name
        for topic in api.topics
        for one in topic.operations
        for name in (one.body_schema, one.answer_schema)
        if name
    }

    assert named <= known
