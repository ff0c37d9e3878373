import pytest
from support.dashboard_site import Page, Site
from support.gates import refund

from demur.evals.preferred_answers import parse_note, read_store_edits


def items(page: Page) -> list[str]:
    return [one.attrs["data-id"] for one in page.all("li") if "data-id" in one.attrs]


def test_refusals_wait_in_the_queue_until_somebody_judges_them(site: Site) -> None:
    waiting = items(site.open("/review"))
    site.send(f"/decisions/{waiting[0]}/label", {"value": "false_refusal", "note": "A plain wish."})
    wrong = site.open("/review?queue=false_refusal")

    assert len(waiting) == 4
    assert waiting == sorted(waiting, reverse=True)
    assert items(site.open("/review")) == waiting[1:]
    assert items(wrong) == [waiting[0]]
    assert "A plain wish." in wrong.text
    assert "1 false refusal" in wrong.text


def test_queues_hold_one_kind_of_verdict(site: Site) -> None:
    assert len(items(site.open("/review?queue=denials"))) == 1
    assert len(items(site.open("/review?queue=escalations"))) == 3
    assert items(site.open("/review?queue=what")) == items(site.open("/review"))


def test_empty_queues_say_what_to_do(empty: Site) -> None:
    empty.decide(refund())

    assert "Nothing left to label" in empty.open("/review").text
    assert "None in 90 days" in empty.open("/review?queue=missed_harm").text


def test_a_label_of_a_decision_that_is_gone_is_passed_over(site: Site) -> None:
    first = items(site.open("/review"))[0]
    site.send(f"/decisions/{first}/label", {"value": "missed_harm"})
    site.call.store.retire_records("default", "2027-01-01T00:00:00.000Z", by="ops", reason="test")

    assert items(site.open("/review?queue=missed_harm")) == []


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
def test_an_invalid_label_is_refused(site: Site, fields: dict[str, str]) -> None:
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


def test_a_note_precedes_the_answer_that_counts(site: Site) -> None:
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


def test_a_form_offers_a_better_answer_field_where_labels_are_permitted(site: Site) -> None:
    decision_id = site.decide(refund())
    for path in (f"/decisions/{decision_id}", "/review"):
        fields = [one for one in site.open(path).all("textarea") if one.attrs["name"] == "answer"]
        assert fields
        longest = int(fields[0].attrs["maxlength"])
        for size, status in ((longest, 303), (longest + 3, 422)):
            sent = {"value": "good", "answer": "x" * size}
            answer = site.send(f"/decisions/{decision_id}/label", sent)
            assert answer.status_code == status
