import re

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from demur.service.calls import ApiRoute
from demur.service.routes import ROUTES, STATUS_MEANINGS, build_openapi, error_statuses

DOCUMENT = build_openapi(ROUTES)
NAMES = [route.name for route in ROUTES]


def test_the_document_is_valid() -> None:
    assert list(OpenAPIV31SpecValidator(DOCUMENT).iter_errors()) == []


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
def test_every_route_is_in_the_document(route: ApiRoute) -> None:
    path = re.sub(r":\w+\}", "}", route.path)
    operation = DOCUMENT["paths"][path][route.method.lower()]

    assert operation["summary"] == route.summary
    assert str(route.success) in operation["responses"]
    assert set(map(str, error_statuses(route))) < set(operation["responses"])
    assert ("requestBody" in operation) == (route.takes is not None)
    assert operation["security"] == ([{"key": [route.role]}] if route.role else [])


def test_names_and_places_are_used_once() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


def test_every_status_has_a_meaning_and_every_answer_a_schema() -> None:
    for route in ROUTES:
        assert set(error_statuses(route)) <= set(STATUS_MEANINGS)
    assert "Problem" in DOCUMENT["components"]["schemas"]
    assert "DecisionRecord" in DOCUMENT["components"]["schemas"]


def test_every_route_that_takes_json_shows_an_example() -> None:
    assert [
        route.name for route in ROUTES if route.takes and not route.log and not route.example
    ] == []
