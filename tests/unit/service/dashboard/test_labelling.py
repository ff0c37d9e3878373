import pytest
from dashboard_site import Site
from gates import refund


def test_a_label_is_kept_with_its_note(site: Site) -> None:
    decision_id = site.decide(refund())
    answer = site.send(f"/decisions/{decision_id}/label", {"value": "missed_harm", "note": " Oh. "})
    [label] = site.call.store.labels(decision_id)

    assert answer.status_code == 303
    assert answer.headers["location"] == f"/decisions/{decision_id}#labels"
    assert (label.kind, label.value, label.note, label.by) == (
        "review",
        "missed_harm",
        "Oh.",
        "local",
    )


def test_a_label_leads_back_but_never_to_another_site(site: Site) -> None:
    decision_id = site.decide(refund())
    path = f"/decisions/{decision_id}/label"

    back = site.send(path, {"value": "good", "next": "/review?queue=open"})
    away = site.send(path, {"value": "good", "next": "//evil.example"})

    assert back.headers["location"] == "/review?queue=open"
    assert away.headers["location"].startswith("/decisions/")


@pytest.mark.parametrize("fields", [{"value": "fine"}, {}, {"value": "good", "note": "x" * 2001}])
def test_what_is_no_label_is_refused(site: Site, fields: dict[str, str]) -> None:
    decision_id = site.decide(refund())

    assert site.send(f"/decisions/{decision_id}/label", fields).status_code == 422
    assert site.call.store.labels(decision_id) == []


def test_a_page_of_another_site_cannot_label(site: Site) -> None:
    decision_id = site.decide(refund())
    path = f"/decisions/{decision_id}/label"

    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert site.send(path, {"value": "good"}, **headers).status_code == 403
    assert site.call.store.labels(decision_id) == []
