from dashboard_site import Page, Site
from gates import refund


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
    site.call.store.retire_records("default", "2027-01-01T00:00:00.000Z")

    assert items(site.open("/review?queue=missed_harm")) == []
