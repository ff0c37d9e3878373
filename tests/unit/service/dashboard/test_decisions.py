from dashboard_site import Page, Site
from gates import refund
from served import add_key


def found(page: Page) -> int:
    return len([row for table in page.all("tbody") for row in table.all("tr")])


def test_decisions_are_filtered_and_the_form_keeps_what_was_asked(site: Site) -> None:
    page = site.open("/decisions?verdict=DENY&code=CHARGEBACK_RISK_BLOCK&action=&since=2026-11-15")
    chosen = [one.attrs["value"] for one in page.all("option") if "selected" in one.attrs]

    assert found(page) == 1
    assert "DENY" in chosen
    assert found(site.open("/decisions")) == 5
    assert found(site.open("/decisions?subject=customer:ada")) == 2


def test_a_filter_that_nothing_can_match_is_left_out_and_said(site: Site) -> None:
    page = site.open("/decisions?verdict=MAYBE&class=x")

    assert found(page) == 5
    assert "There is no such verdict and no such class; it was left out." in page.text


def test_a_page_that_begins_nowhere_is_the_first_one_and_says_so(site: Site) -> None:
    page = site.open("/decisions?before=zzz")

    assert found(page) == 5
    assert "There is no such before; it was left out." in page.text
    assert "Newest" not in page.text


def test_the_beginnings_of_ids_tell_nothing_of_other_tenants(site: Site) -> None:
    shared = site.decide(refund())[:10]
    bearer = f"Bearer {add_key(site.call.store, 'acme')}"

    assert "Nothing found" in site.open(f"/decisions?q={shared}", authorization=bearer).text


def test_a_time_that_is_none_is_an_error_page(site: Site) -> None:
    assert "since" in site.open("/decisions?since=yesterday", 422).text


def test_empty_answers_say_how_to_go_on(site: Site) -> None:
    assert "Nothing matches" in site.open("/decisions?code=RCE_RISK").text
    assert "Nothing found" in site.open("/decisions?q=nobody").text
    assert "/decisions" in site.open("/decisions?unreviewed=1&verdict=ABSTAIN").links()


def test_an_empty_store_tells_the_next_command(empty: Site) -> None:
    assert "demur decide" in empty.open("/decisions").text


def test_pages_of_decisions_follow_each_other(empty: Site) -> None:
    for number in range(60):
        empty.decide(refund(request_id=f"r-{number}"))
    first = empty.open("/decisions?action=refund")
    [older] = [one.attrs["href"] for one in first.all("a") if one.attrs.get("rel") == "next"]
    second = empty.open(older)

    assert (found(first), found(second)) == (50, 10)
    assert not first.links() & {link for link in second.links() if link.startswith("/decisions/")}
    assert "/decisions?action=refund" in second.links()


def test_a_search_by_id_or_request_leads_to_the_decision(site: Site) -> None:
    decision_id = site.decide(refund(request_id="order-77"))

    for asked in (decision_id, decision_id.lower(), "order-77"):
        answer = site.get(f"/decisions?q={asked}")
        assert answer.status_code == 303
        assert answer.headers["location"] == f"/decisions/{decision_id}"


def test_a_search_by_subject_lists_what_they_asked_for(site: Site) -> None:
    assert found(site.open("/decisions?q=ada")) == 2
    assert found(site.open("/decisions?q=customer:ada")) == 2


def test_the_beginning_of_several_ids_is_not_enough(site: Site) -> None:
    shared = site.decide(refund())[:10]

    assert "several decisions begin with" in site.open(f"/decisions?q={shared}", 422).text


def test_nobody_finds_the_decision_of_another_tenant(site: Site) -> None:
    decision_id = site.decide(refund(request_id="theirs"))
    bearer = f"Bearer {add_key(site.call.store, 'acme')}"

    assert "Nothing found" in site.open(f"/decisions?q={decision_id}", authorization=bearer).text
    assert "Nothing found" in site.open("/decisions?q=theirs", authorization=bearer).text
    site.open(f"/decisions/{decision_id}", 404, authorization=bearer)
    assert found(site.open("/decisions", authorization=bearer)) == 0
    site.open("/decisions?tenant=default", 403, authorization=bearer)
