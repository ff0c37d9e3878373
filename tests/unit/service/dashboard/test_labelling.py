import pytest
from dashboard_site import Site
from gates import refund

from demur.evals.remediate_edits import parse_note, read_store_edits


def test_a_label_is_kept_with_its_note(site: Site) -> None:
    decision_id = site.decide(refund())
    answer = site.send(f"/decisions/{decision_id}/label", {"value": "missed_harm", "note": " Oh. "})
    [label] = site.call.store.list_labels(decision_id)

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


@pytest.mark.parametrize(
    "fields",
    [
        {"value": "fine"},
        {},
        {"value": "good", "note": "x" * 2001},
        {"value": "good", "note": "a\0b"},
    ],
)
def test_what_is_no_label_is_refused(site: Site, fields: dict[str, str]) -> None:
    decision_id = site.decide(refund())

    assert site.send(f"/decisions/{decision_id}/label", fields).status_code == 422
    assert site.call.store.list_labels(decision_id) == []


def test_a_page_of_another_site_cannot_label(site: Site) -> None:
    decision_id = site.decide(refund())
    path = f"/decisions/{decision_id}/label"

    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert site.send(path, {"value": "good"}, **headers).status_code == 403
    assert site.call.store.list_labels(decision_id) == []


def test_a_better_answer_is_a_note_that_evals_know(site: Site) -> None:
    decision_id = site.decide(refund())
    fields = {"value": "false_refusal", "answer": " Yes.\r\n\r\nIt is paid back. "}
    site.send(f"/decisions/{decision_id}/label", fields)
    [label] = site.call.store.list_labels(decision_id)

    assert label.note == "answer: Yes.\n\nIt is paid back."
    assert parse_note(label.note) == "Yes.\n\nIt is paid back."
    assert read_store_edits(site.call.store, {decision_id}) == {
        decision_id: "Yes.\n\nIt is paid back."
    }


def test_a_remark_stands_before_the_answer_which_counts(site: Site) -> None:
    decision_id = site.decide(refund())
    fields = {"value": "missed_harm", "note": "Not like that.", "answer": "I will not do that."}
    site.send(f"/decisions/{decision_id}/label", fields)
    labels = site.call.store.list_labels(decision_id)
    queue = site.open("/review?queue=missed_harm")

    assert [one.note for one in labels] == ["Not like that.", "answer: I will not do that."]
    assert {one.value for one in labels} == {"missed_harm"}
    assert "1 missed harm" in queue.text
    assert len([one for one in queue.all("li") if "data-id" in one.attrs]) == 1
    assert "answer: I will not do that." in queue.text


def test_a_form_asks_for_a_better_answer_where_labels_may_be_given(site: Site) -> None:
    decision_id = site.decide(refund())
    for path in (f"/decisions/{decision_id}", "/review"):
        fields = [one for one in site.open(path).all("textarea") if one.attrs["name"] == "answer"]
        assert fields
        longest = int(fields[0].attrs["maxlength"])
        for size, status in ((longest, 303), (longest + 3, 422)):
            sent = {"value": "good", "answer": "x" * size}
            answer = site.send(f"/decisions/{decision_id}/label", sent)
            assert answer.status_code == status
