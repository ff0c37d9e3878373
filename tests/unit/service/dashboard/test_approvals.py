"""The pages of approvals: the queue, one request, its forms, and who sees what."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from support.dashboard_site import Page, Site, site_of
from support.gates import NOON, Ticking, gate_over, refund
from support.people import SERVICE_KEY, add_person
from support.service_app import add_key

from demur.gate.approvals import ApprovalSettings
from demur.gate.gate import Gate
from demur.grants import KeyRing
from demur.service.authentication import person_principal
from demur.service.cookies import SESSION_COOKIE
from demur.store.opening import open_store
from demur.store.rows import ApprovalRow

ANSWER = {"covers": "request", "valid_s": "3600", "uses": "1", "note": "the ticket is there"}


def log_in(site: Site, login: str, **fields: Any) -> dict[str, str]:
    """Return the headers of a person who is logged in."""
    person = add_person(site.call.store, login, **{"tenant": "acme", **fields})
    secret = site.call.service.authenticator.open_session(
        person_principal(person), timedelta(hours=1), generation=person.generation
    )
    return {"cookie": f"{SESSION_COOKIE}={secret}"}


class Desk:
    """Pages of a service with a service key, and the gate behind it."""

    def __init__(self, site: Site, gate: Gate) -> None:
        self.site = site
        self.gate = gate

    def ask(self, value: int = 900, tenant: str = "acme", **more: Any) -> str:
        """Return the id of a refund that waits."""
        return self.gate.decide(refund(value, **more), tenant=tenant).decision_id

    def open(self, path: str, headers: Mapping[str, str]) -> Page:
        """Return a page as somebody sees it."""
        return self.site.open(path, 200, **headers)

    def row(self, decision_id: str) -> ApprovalRow:
        """Return a request as stored."""
        row = self.site.call.store.get_approval(decision_id)
        assert row is not None
        return row


@pytest.fixture
def settings() -> ApprovalSettings:
    return ApprovalSettings()


@pytest.fixture
def desk(settings: ApprovalSettings) -> Iterator[Desk]:
    issuers = KeyRing([SERVICE_KEY.issuer.trusted_key()])
    gate = gate_over(open_store(":memory:"), issuers=issuers, approvals=settings)
    with gate, site_of(gate) as site:
        site.call.service._service_key = SERVICE_KEY
        yield Desk(site, gate)


def ids(page: Page) -> list[str]:
    """Return the requests that a page of the queue lists."""
    heads = [one for one in page.all("a") if one.parent is not None and one.parent.tag == "h2"]
    return [one.attrs["href"].partition("?")[0].rpartition("/")[2] for one in heads]


def badge(page: Page) -> str:
    [found] = [one.text for one in page.all("span") if one.attrs.get("data-badge") == "approvals"]
    return found


def forms(page: Page) -> list[str]:
    return [one.attrs["action"] for one in page.all("form") if one.attrs.get("class") == "vote"]


def test_the_queue_says_who_asks_what_for_why_and_until_when(desk: Desk) -> None:
    first, second = desk.ask(), desk.ask(700)
    desk.ask(tenant="globex")
    mary = log_in(desk.site, "mary")
    page = desk.open("/approvals", mary)

    assert ids(page) == [first, second]
    assert badge(page) == "2"
    for words in ("agent:billing", "900 USD", "REFUND_OVER_ESCALATION_LIMIT", "hours left"):
        assert words in page.text
    assert "any approver" in page.text
    assert "Decide" in page.text
    assert ids(desk.open("/approvals?tab=decided", mary)) == []


def test_pages_follow_each_other(desk: Desk) -> None:
    asked = [desk.ask() for _ in range(21)]
    mary = log_in(desk.site, "mary")
    page = desk.open("/approvals", mary)
    [following] = [one.attrs["href"] for one in page.all("a") if one.attrs.get("rel") == "next"]
    later = desk.open(following, mary)

    assert ids(page) == asked[:20]
    assert ids(later) == asked[20:]
    assert "To the first page" in later.text


def test_a_person_approves_and_the_course_says_so(desk: Desk) -> None:
    decision_id, mary = desk.ask(), log_in(desk.site, "mary")
    page = desk.open(f"/approvals/{decision_id}", mary)
    assert forms(page) == [f"/approvals/{decision_id}/approve"]
    answer = desk.site.send(
        forms(page)[0], {**ANSWER, "covers": "scope", "uses": "5", "valid_s": "86400"}, **mary
    )

    assert answer.status_code == 303
    assert answer.headers["location"] == f"/approvals/{decision_id}#course"
    row = desk.row(decision_id)
    assert (row.state, row.closed_by, row.note) == ("approved", "person:mary", ANSWER["note"])
    [vote] = desk.site.call.store.list_votes(decision_id)
    assert vote.limits == {"covers": "scope", "uses": 5, "valid_s": 86400}
    page = desk.open(f"/approvals/{decision_id}", mary)
    assert "mary approved: this action of the same requester, 5 times within 1 day" in page.text
    assert "Approved by mary" in page.text
    assert "demur applied the signed approval: Allowed" in page.text
    assert f"/decisions/{row.resolution_id}" in page.links()
    assert forms(page) == []
    assert ids(desk.open("/approvals?tab=decided&state=approved", mary)) == [decision_id]
    assert badge(desk.open("/approvals", mary)) == "0"


def test_a_person_declines_with_a_note(desk: Desk) -> None:
    decision_id, mary = desk.ask(), log_in(desk.site, "mary")
    note = {"note": " <b>no</b>\r\n not\ttoday "}
    answer = desk.site.send(f"/approvals/{decision_id}/decline", note, **mary)

    assert answer.status_code == 303
    assert (desk.row(decision_id).state, desk.row(decision_id).note) == (
        "declined",
        "<b>no</b> not today",
    )
    page = desk.open(f"/approvals/{decision_id}", mary)
    assert "<b>no</b> not today" in page.text
    assert "knows not to send it again" in page.text


def test_enter_in_a_field_approves_nothing(desk: Desk) -> None:
    page = desk.open(f"/approvals/{desk.ask()}", log_in(desk.site, "mary"))
    [form] = [one for one in page.all("form") if one.attrs.get("class") == "vote"]

    assert form.all("button")[0].attrs["formmethod"] == "dialog"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"covers": "all"}, "covers"),
        ({"valid_s": "1"}, "valid_s"),
        ({"covers": "scope", "uses": "-1"}, "uses"),
        ({"covers": "scope", "uses": "x"}, "uses"),
        ({"note": "x" * 501}, "at most 500"),
    ],
)
def test_what_cannot_be_taken_is_shown_with_the_form(
    desk: Desk, fields: dict[str, str], expected: str
) -> None:
    decision_id, mary = desk.ask(), log_in(desk.site, "mary")
    answer = desk.site.send(f"/approvals/{decision_id}/approve", {**ANSWER, **fields}, **mary)
    page = Page(answer.text)

    assert answer.status_code == 422
    assert expected in page.text
    assert forms(page)
    assert desk.row(decision_id).state == "waiting"


def test_of_two_who_decide_at_once_one_learns_that_it_is_closed(desk: Desk) -> None:
    decision_id = desk.ask()
    mary, john = log_in(desk.site, "mary"), log_in(desk.site, "john")
    desk.site.send(f"/approvals/{decision_id}/decline", {"note": "no"}, **mary)
    answer = desk.site.send(f"/approvals/{decision_id}/approve", ANSWER, **john)

    assert answer.status_code == 409
    assert "the request is closed: declined by person:mary" in Page(answer.text).text
    assert len(desk.site.call.store.list_votes(decision_id)) == 1


def test_nobody_approves_their_own_request(desk: Desk) -> None:
    decision_id, billing = desk.ask(), log_in(desk.site, "billing")
    page = desk.open(f"/approvals/{decision_id}", billing)
    answer = desk.site.send(f"/approvals/{decision_id}/approve", ANSWER, **billing)

    assert forms(page) == []
    assert "nobody approves their own request" in page.text
    assert answer.status_code == 403
    assert desk.row(decision_id).state == "waiting"


def test_a_reader_sees_why_not_and_what_to_do(desk: Desk) -> None:
    decision_id = desk.ask()
    rita = log_in(desk.site, "rita", role="reviewer")
    page = desk.open(f"/approvals/{decision_id}", rita)
    answer = desk.site.send(f"/approvals/{decision_id}/approve", ANSWER, **rita)

    assert forms(page) == []
    assert "demur people change rita --role approver" in page.text
    assert answer.status_code == 403


def test_a_key_sees_how_to_become_a_person(desk: Desk) -> None:
    decision_id = desk.ask()
    key = {"authorization": f"Bearer {add_key(desk.site.call.store, 'acme', 'admin')}"}
    page = desk.open(f"/approvals/{decision_id}", key)
    answer = desk.site.send(f"/approvals/{decision_id}/approve", ANSWER, **key)

    assert forms(page) == []
    assert "demur people add mary --tenant acme --role approver" in page.text
    assert answer.status_code == 403


def test_a_local_browser_sees_how_to_become_a_person(desk: Desk) -> None:
    decision_id = desk.ask()

    assert "demur people init" in desk.site.open("/approvals").text
    assert forms(desk.site.open(f"/approvals/{decision_id}")) == []


def test_another_tenant_has_no_such_request(desk: Desk) -> None:
    decision_id, zoe = desk.ask(), log_in(desk.site, "zoe", tenant="globex")

    assert desk.site.get(f"/approvals/{decision_id}", **zoe).status_code == 404
    for what in ("approve", "decline"):
        sent = desk.site.send(f"/approvals/{decision_id}/{what}", ANSWER, **zoe)
        assert sent.status_code == 404
    assert ids(desk.open("/approvals", zoe)) == []


def test_a_form_of_another_site_is_refused(desk: Desk) -> None:
    decision_id = desk.ask()
    mary = {**log_in(desk.site, "mary"), "sec-fetch-site": "cross-site"}

    assert desk.site.send(f"/approvals/{decision_id}/approve", ANSWER, **mary).status_code == 403
    assert desk.row(decision_id).state == "waiting"


def test_what_came_in_stays_text(desk: Desk) -> None:
    bad = "<script>alert(1)</script>"
    decision_id = desk.ask(subject={"type": "agent", "id": bad}, context={"on_behalf_of": bad})
    mary = log_in(desk.site, "mary")
    for path in ("/approvals", f"/approvals/{decision_id}", f"/approvals?group={bad}&before={bad}"):
        answer = desk.site.get(path, **mary)
        assert answer.status_code == 200
        assert bad not in answer.text


@pytest.mark.parametrize(
    "settings", [ApprovalSettings(groups=("desk", "leads"), escalate_after_s=60)]
)
def test_groups_decide_one_after_the_other(desk: Desk) -> None:
    decision_id = desk.ask()
    mary, lee = log_in(desk.site, "mary", groups="desk"), log_in(desk.site, "lee", groups="leads")
    page = desk.open(f"/approvals/{decision_id}", mary)
    assert forms(page)
    assert "the group leads" in page.text
    stranger = desk.open(f"/approvals/{decision_id}", lee)
    assert forms(stranger) == []
    assert "demur people change lee --group desk" in stranger.text
    assert desk.site.send(f"/approvals/{decision_id}/approve", ANSWER, **lee).status_code == 403
    assert ids(desk.open("/approvals?mine=1", lee)) == []
    assert ids(desk.open("/approvals?mine=1", mary)) == [decision_id]
    assert ids(desk.open("/approvals?group=leads", mary)) == []

    moved = {"now": "2026-11-15T12:06:00.000Z", "by": "demur", "reason": "no answer from desk"}
    desk.site.call.store.move_approval(desk.row(decision_id), "leads", **moved)
    page = desk.open(f"/approvals/{decision_id}", lee)
    assert forms(page)
    assert "Nobody answered, so the group leads decides" in page.text


def test_a_request_whose_time_is_over_has_no_form(desk: Desk) -> None:
    decision_id, mary = desk.ask(), log_in(desk.site, "mary")
    desk.site.call.service.clock = Ticking(NOON + timedelta(days=2))
    # Sessions are over, too, so somebody else looks.
    key = add_key(desk.site.call.store, "acme", "read")
    page = desk.open(f"/approvals/{decision_id}", {"authorization": f"Bearer {key}"})

    assert mary
    assert "Expired" in page.text
    assert forms(page) == []


def test_a_notice_that_failed_is_shown(desk: Desk) -> None:
    decision_id, mary = desk.ask(), log_in(desk.site, "mary")
    state = (
        '{"notice":"waiting:","status":"failed","attempts":3,"at":"2026-11-15T12:00:00.000Z",'
        '"problem":"the webhook answered 500"}'
    )
    desk.site.call.store.claim_notice(desk.row(decision_id), state)

    assert "the webhook answered 500, tried 3 times" in desk.open("/approvals", mary).text
    page = desk.open(f"/approvals/{decision_id}", mary)
    assert "could not deliver the notice: the webhook answered 500" in page.text


def test_the_page_of_the_decision_leads_to_its_approval_and_back(desk: Desk) -> None:
    decision_id, mary = desk.ask(), log_in(desk.site, "mary")
    assert f"/approvals/{decision_id}" in desk.open(f"/decisions/{decision_id}", mary).links()
    desk.site.send(f"/approvals/{decision_id}/approve", ANSWER, **mary)
    resolution_id = desk.row(decision_id).resolution_id
    page = desk.open(f"/decisions/{resolution_id}", mary)

    assert f"/approvals/{decision_id}" in page.links()
    assert "mary approved: this request, once, within 1 hour" in page.text
    assert f"/decisions/{decision_id}" in desk.open(f"/approvals/{decision_id}", mary).links()
    assert desk.site.get(f"/approvals/{'0' * 26}", **mary).status_code == 404


def test_an_erased_request_shows_what_was_decided(desk: Desk) -> None:
    decision_id, mary = desk.ask(), log_in(desk.site, "mary")
    desk.site.call.store.erase_subject("acme", "agent:billing", by="tests", reason="a test")
    page = desk.open(f"/approvals/{decision_id}", mary)

    assert "Somebody erased the personal part" in page.text
