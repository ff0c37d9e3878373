from dashboard_site import Page, Site

from demur.service.access import Role
from demur.service.dashboard.pages import PAGES


def test_every_link_leads_somewhere(site: Site) -> None:
    waiting, seen = ["/"], set[str]()
    while waiting:
        path = waiting.pop()
        if path in seen or path.startswith("#"):
            continue
        seen.add(path)
        answer = site.get(path)
        assert answer.status_code == 200, path
        # One reason and one decision stand for all of them.
        plain = len(seen) < 90 and answer.headers["content-type"].startswith("text/html")
        waiting += sorted(Page(answer.text).links()) if plain else []

    assert {
        "/decisions",
        "/reasons",
        "/review",
        "/evals",
        "/codes",
        "/triage",
        "/openapi.json",
    } <= seen


def test_only_the_way_in_and_static_files_are_open_to_everybody() -> None:
    open_to_all = {(route.method, route.path) for route in PAGES if route.role is None}

    assert open_to_all == {
        ("GET", "/login"),
        ("POST", "/login"),
        ("POST", "/logout"),
        ("GET", "/static/{name}"),
    }


def test_labels_take_the_role_for_labels() -> None:
    [label] = [route for route in PAGES if route.path.endswith("/label")]

    assert label.role is Role.LABEL
