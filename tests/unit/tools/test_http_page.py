import pytest
from http_page import generated_files, render_reference

from demur.service.calls import ApiRoute
from demur.service.routes import ROUTES, error_statuses

PAGE = render_reference()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_is_documented(route: ApiRoute) -> None:
    title = f"## {route.method} {route.path.replace(':path', '')}\n"
    part = PAGE.partition(title)[2].partition("\n## ")[0]

    assert route.summary in part
    assert (f"Role `{route.role}`" if route.role else "No key needed.") in part
    assert f"{route.success} gives" in part
    assert all(str(status) in part for status in error_statuses(route))
    assert all(f"`{query.name}`" in part for query in route.query)
    assert ("```json" in part) == (route.example is not None)


def test_the_page_is_written_where_the_documentation_looks_for_it() -> None:
    assert list(generated_files()) == [("docs/reference/http.md", PAGE)]
