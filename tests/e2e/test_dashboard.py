"""The dashboard in a real browser: every page opened, the main ways clicked."""

import os
from pathlib import Path
from typing import Any

import pytest

from demur.audit.pack import read_pack
from demur.audit.replay import replay_pack
from demur.store.backend import RecordFilter

pytestmark = pytest.mark.browser

PAGES = {
    "overview": "/",
    "overview-week": "/?last=7d",
    "decisions": "/decisions",
    "approvals": "/approvals",
    "decided": "/approvals?tab=decided",
    "decision": "/decisions/{answer}",
    "refund": "/decisions/{refund}",
    "reasons": "/reasons",
    "reason": "/reasons/CHARGEBACK_RISK_BLOCK",
    "review": "/review",
    "labelled": "/review?queue=false_refusal",
    "evals": "/evals",
    "run": "/evals/first",
    "rows": "/evals/first?view=rows&show=wrong",
    "broken": "/evals/torn",
    "compare": "/compare-evals?before=first&after=second",
    "codes": "/codes",
    "triage": "/triage",
    "report": "/report?since=2000-01-01&until=2100-01-01&tenant=sample",
    "guards": "/guards",
    "api": "/docs",
    "operation": "/docs#decide",
    "login": "/login",
    "lost": "/nowhere",
}
STATUSES = {"lost": 404}
LOOKS = {
    "light": (1400, "light"),
    "dark": (1400, "dark"),
    "phone": (390, "light"),
    "phone-dark": (390, "dark"),
    "narrow": (360, "light"),
}
BAD = (
    "<script>window.ran = 1; alert(1)</script>",
    '"><img src=x onerror="window.ran = 1; alert(1)">',
    "'><svg onload=alert(1)>",
    "</textarea></pre></title><iframe srcdoc='<script>parent.alert(1)</script>'>",
    "<a href=javascript:alert(1) autofocus onfocus=alert(1)>x</a>",
)
WIDER = """() => [...document.querySelectorAll("body *")]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1
    && !one.closest(".visually-hidden, .skip, svg"))
  .map((one) => `${one.tagName}.${one.className}`)"""


def one_of(service: Any, code: str) -> str:
    wanted = RecordFilter(tenant="sample", reason_code=code)
    record = next(service.gate.store.find_records(wanted, newest_first=True, limit=1))
    return str(record.decision_id)


def path_of(service: Any, name: str) -> str:
    path = PAGES[name]
    if "{" in path:
        answer, refund = one_of(service, "PROMPT_LEAK"), one_of(service, "CHARGEBACK_RISK_BLOCK")
        path = path.format(answer=answer, refund=refund)
    return f"{service.address}{path}"


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_opens_and_fits(service: Any, tabs: Any, tmp_path: Path, look: str) -> None:
    width, scheme = LOOKS[look]
    tab = tabs(width=width, scheme=scheme)
    folder = Path(os.environ.get("DEMUR_SHOTS", str(tmp_path)))
    for name in PAGES:
        answer = tab.page.goto(path_of(service, name))
        # An address with a fragment may be the page that is open already.
        assert answer is None or answer.status == STATUSES.get(name, 200), name
        tab.page.wait_for_load_state("networkidle")
        tab.page.screenshot(path=str(folder / f"{look}-{name}.png"), full_page=True)
        assert tab.page.locator("h1").count() == 1
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert tab.page.evaluate(WIDER) == [], name


def test_a_name_of_any_length_leaves_the_table_as_it_is(service: Any, tabs: Any) -> None:
    service.decide(
        action={"type": "x" * 250, "intent": "y" * 3000},
        subject={"type": "agent", "id": "z" * 250},
    )
    tab = tabs()
    for path in ("/", "/decisions"):
        tab.page.goto(f"{service.address}{path}")
        row = tab.page.locator("table.decisions tbody tr", has_text="zzzz").first
        assert row.bounding_box()["height"] < 140
        assert tab.page.evaluate(WIDER) == [], path


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing(service: Any, tabs: Any, look: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    width, scheme = LOOKS[look]
    tab = tabs(width=width, scheme=scheme, bypass_csp=True)
    for name in PAGES:
        tab.page.goto(path_of(service, name))
        found = axe.run(tab.page).response["violations"]
        told = [(one["id"], node["html"][:160]) for one in found for node in one["nodes"]]
        assert told == [], name


def test_a_refusal_is_found_explained_replayed_and_exported(
    service: Any, tabs: Any, tmp_path: Path
) -> None:
    tab = tabs()
    page = tab.page
    page.goto(service.address)
    denied = page.locator("section", has=page.get_by_role("heading", name="Top reasons"))
    denied.get_by_role("link", name="CHARGEBACK_RISK_BLOCK").first.click()
    page.get_by_role("link", name="All of them").click()
    page.locator("td.when a").first.click()

    assert "R_CHARGEBACK" in page.locator("main").inner_text()
    page.get_by_role("button", name="Replay").click()
    page.get_by_text("Same again.").wait_for()
    with page.expect_download() as started:
        page.get_by_role("link", name="Export pack").click()
    target = tmp_path / "decision.zip"
    started.value.save_as(target)
    assert replay_pack(read_pack(target.read_bytes())).same


def test_one_customer_is_found_by_name_and_the_ticket_copied(service: Any, tabs: Any) -> None:
    tab = tabs(permissions=["clipboard-read", "clipboard-write"])
    page = tab.page
    page.goto(f"{service.address}/decisions")
    page.get_by_role("searchbox").fill("ada@example.com")
    page.get_by_role("button", name="Find").click()
    page.locator("tr", has_text="Refused").or_(
        page.locator("tr", has_text="Needs something")
    ).locator("td.when a").first.click()
    page.get_by_role("button", name="Copy as ticket").click()
    page.get_by_text("Copied").wait_for()

    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("### ")
    assert "ada" not in copied


def test_an_alert_is_highlighted_when_one_code_exceeds_a_tenth(service: Any, tabs: Any) -> None:
    for _ in range(5):
        service.decide(
            action={"type": "refund", "amount": {"value": 9, "currency": "USD"}},
            evidence={"order_id": "A-1", "chargeback_risk": 0.99},
        )
    tab = tabs()
    tab.page.goto(f"{service.address}/?tenant=shop")
    alerts = tab.page.locator("section", has=tab.page.get_by_role("heading", name="Alerts"))

    assert "over 10 %" in alerts.inner_text()
    alerts.get_by_role("link", name="CHARGEBACK_RISK_BLOCK").click()
    assert "over 10 %" in tab.page.locator("main").inner_text()


def test_a_decision_is_labelled_without_leaving_it(service: Any, tabs: Any) -> None:
    decision_id = one_of(service, "PROMPT_LEAK")
    tab = tabs()
    tab.page.goto(f"{service.address}/decisions/{decision_id}")
    tab.page.get_by_label("Note").fill("as it should be")
    tab.page.get_by_role("button", name="Good", exact=True).click()
    tab.page.get_by_text("as it should be").wait_for()

    assert tab.page.url.endswith(decision_id)
    assert service.gate.store.list_labels(decision_id)[-1].value == "good"


def test_the_queue_is_worked_through_by_keys(service: Any, tabs: Any) -> None:
    tab = tabs()
    page = tab.page
    page.goto(f"{service.address}/review")
    ids = page.locator("[data-id]").evaluate_all("all => all.map((one) => one.dataset.id)")
    page.keyboard.press("j")
    page.keyboard.press("f")
    page.locator(".item.done").first.wait_for()
    page.keyboard.press("n")
    page.keyboard.type("jgfm?")
    page.keyboard.press("Escape")
    page.keyboard.press("m")
    page.locator(".item.done").nth(1).wait_for()
    page.keyboard.press("k")
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()

    labels = [service.gate.store.list_labels(one)[-1] for one in ids[:2]]
    assert [(one.value, one.note) for one in labels] == [
        ("false_refusal", ""),
        ("missed_harm", "jgfm?"),
    ]
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Keys on").click()
    page.keyboard.press("g")
    page.wait_for_timeout(300)
    assert page.locator(".item.done").count() == 2


def test_counts_move_with_a_label_and_back_when_it_is_undone(service: Any, tabs: Any) -> None:
    request = {"type": "refund", "amount": {"value": 777, "currency": "USD"}}
    for _ in range(3):
        service.decide(action=request, evidence={"ticket_id": "T-1"})
    page = tabs().page
    page.goto(f"{service.address}/review")
    count, badge = page.locator("[data-count=open]"), page.locator("[data-badge=review]")
    before = int(count.inner_text())
    card = page.locator(".item").first
    assert "3 times" in card.inner_text()
    assert badge.inner_text() == (str(before) if before < 100 else "99+")
    card.get_by_role("button", name="Missed harm").click()
    page.locator(".item.done").first.wait_for()
    assert int(count.inner_text()) == before - 3
    assert "3 cases" in card.inner_text()
    assert "eval from-store" in card.inner_text()
    page.keyboard.press("k")
    page.keyboard.press("u")
    page.get_by_text("withdrawn").first.wait_for()

    assert int(count.inner_text()) == before
    assert page.locator(".item.done").count() == 0


def test_new_decisions_appear_until_somebody_pauses(service: Any, tabs: Any) -> None:
    tab = tabs()
    page = tab.page
    page.goto(service.address)
    first = service.decide(action={"type": "answer"})
    page.locator(f"a[href^='/decisions/{first}']").wait_for()
    assert "new decision" in page.locator("[data-announce]").inner_text()

    page.get_by_role("button", name="Live").click()
    second = service.decide(action={"type": "answer"})
    page.wait_for_timeout(6500)
    assert page.locator(f"a[href^='/decisions/{second}']").count() == 0
    assert page.get_by_role("button", name="Paused").count() == 1


def test_the_chosen_theme_stays(service: Any, tabs: Any) -> None:
    page = tabs().page
    page.goto(service.address)
    button = page.get_by_role("button", name="Theme")
    light = page.evaluate("getComputedStyle(document.body).color")
    button.click()
    button.click()
    dark = page.evaluate("getComputedStyle(document.body).color")
    page.goto(f"{service.address}/codes")

    assert light != dark
    assert page.evaluate("getComputedStyle(document.body).color") == dark
    assert button.inner_text() == "Theme: dark"


def test_codes_are_narrowed_while_typing(service: Any, tabs: Any) -> None:
    page = tabs().page
    page.goto(f"{service.address}/codes")
    page.get_by_role("searchbox").fill("chargeback")

    assert 0 < page.locator("tr[data-text]:visible").count() < 9
    page.get_by_role("searchbox").fill("zzzz")
    assert page.get_by_text("No code is like that").is_visible()


def test_a_log_is_dropped_and_counted(service: Any, tabs: Any) -> None:
    page = tabs().page
    page.goto(f"{service.address}/triage")
    page.evaluate(
        """() => {
          const carried = new DataTransfer();
          carried.items.add(new File(["REFUSED: RCE_RISK: x\\nREFUSED: RCE_RISK: y\\n"], "a.log"));
          document.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true }));
        }"""
    )
    page.get_by_text("2 refusals in a.log").wait_for()


def test_counts_of_a_log_are_drawn_and_saved(service: Any, tabs: Any) -> None:
    page = tabs().page
    page.goto(f"{service.address}/triage")
    log = b"2027-01-01T09:10:00Z REFUSED: RCE_RISK: x\n" * 2
    page.set_input_files("#log", {"name": "a.log", "mimeType": "text/plain", "buffer": log})
    page.get_by_role("button", name="Count").click()
    page.get_by_role("heading", name="2 refusals in a.log").wait_for()
    with page.expect_download() as started:
        page.get_by_role("button", name="Download CSV").click()

    assert page.locator(".chart .bars rect.f-code").count() == 1
    assert started.value.suggested_filename == "a-refusals.csv"
    assert Path(started.value.path()).read_text().splitlines()[1].startswith("RCE_RISK,2,")


def test_an_operation_is_tried_on_the_page(service: Any, tabs: Any) -> None:
    page = tabs().page
    page.goto(f"{service.address}/docs#get_code")
    form = page.locator("#get_code form")
    form.get_by_label("code").fill("RCE_RISK")
    form.get_by_role("button", name="Send").click()
    form.get_by_text("200").wait_for()

    assert '"code": "RCE_RISK"' in form.locator("[data-content]").inner_text()
    assert "/v1/codes/RCE_RISK" in form.locator("[data-curl]").inner_text()


def test_filters_make_an_address_to_pass_on(service: Any, tabs: Any) -> None:
    page = tabs().page
    page.goto(f"{service.address}/decisions")
    page.get_by_label("Verdict").select_option("DENY")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**/decisions?verdict=DENY")

    rows = page.locator("table.decisions tbody tr")
    assert page.locator("table.decisions td .t-deny").count() == rows.count() > 0


def test_a_histogram_is_zoomed_by_dragging_and_by_keys(service: Any, tabs: Any) -> None:
    page = tabs().page
    page.goto(f"{service.address}/decisions")
    box = page.locator("#histogram .bars").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 40, steps=5)
    with page.expect_navigation():
        page.mouse.up()
    assert "since=" in page.url
    with page.expect_navigation():
        page.get_by_role("link", name="Zoom out").click()
    page.locator("#histogram summary").focus()
    page.keyboard.press("Enter")
    page.locator("#histogram tbody a").first.focus()
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.locator("table.decisions tbody tr").count() > 0


def test_the_list_follows_new_decisions_if_somebody_wants_it(service: Any, tabs: Any) -> None:
    page = tabs().page
    page.goto(f"{service.address}/decisions?q=tailed")
    assert page.get_by_role("heading", name="Nothing found").count() == 1
    page.goto(f"{service.address}/decisions")
    page.get_by_role("button", name="Live tail").click()
    fresh = service.decide(action={"type": "tailed"})
    page.locator(f"#found a[href^='/decisions/{fresh}']").wait_for()
    page.locator(f"#found a[href^='/decisions/{fresh}']").first.click()
    page.get_by_role("link", name="Older").click()
    page.get_by_role("link", name="Newer").click()
    assert fresh in page.url


def test_filters_are_folded_on_a_phone_and_a_list_is_downloaded(service: Any, tabs: Any) -> None:
    page = tabs(width=390).page
    page.goto(f"{service.address}/decisions?q=refund")
    assert not page.get_by_label("Verdict").is_visible()
    assert page.locator("#histogram").bounding_box()["y"] < 700
    with page.expect_download() as started:
        page.get_by_role("link", name="CSV").click()
    assert started.value.suggested_filename == "demur-decisions.csv"


def test_the_report_is_printed_as_tables(service: Any, tabs: Any) -> None:
    # So wide is what A4 leaves between the margins.
    page = tabs(width=680).page
    page.goto(path_of(service, "report"))
    heads = page.locator(".report table.list thead")
    assert not heads.first.is_visible()
    page.emulate_media(media="print")

    assert heads.first.is_visible()
    row = page.locator(".report table.list tbody tr").first
    assert row.evaluate("one => getComputedStyle(one).display") == "table-row"


def test_times_are_those_of_the_reader(service: Any, tabs: Any) -> None:
    page = tabs(timezone_id="Asia/Kolkata").page
    page.goto(f"{service.address}/decisions")
    time = page.locator("table.decisions time").first

    stored = time.get_attribute("datetime")
    assert "Asia/" in time.get_attribute("title")
    assert time.inner_text()[-8:] != stored[11:19]
    assert "Asia/" in page.locator("footer").inner_text()
    with page.expect_navigation():
        page.get_by_role("link", name="UTC").click()
    assert time.get_attribute("title").endswith(" UTC")
    assert time.inner_text()[-8:] == stored[11:19]
    assert "times in UTC" in page.locator("footer").inner_text()
    with page.expect_navigation():
        page.get_by_role("link", name="Reasons", exact=True).click()
    assert "zone=utc" in page.url


def test_everything_that_matters_works_without_scripts(service: Any, tabs: Any) -> None:
    decision_id = one_of(service, "CHARGEBACK_RISK_BLOCK")
    page = tabs(java_script_enabled=False).page
    page.goto(f"{service.address}/decisions/{decision_id}")
    page.get_by_role("button", name="Replay").click()
    assert page.get_by_text("Same again.").is_visible()
    page.get_by_label("Note").fill("without a script")
    page.get_by_role("button", name="Good", exact=True).click()
    assert page.get_by_text("without a script").is_visible()
    page.goto(f"{service.address}/decisions")
    page.locator("summary", has_text="Filters").click()
    page.get_by_label("Class").select_option("HARD_BLOCK")
    page.get_by_role("button", name="Filter").click()
    assert page.locator("tbody tr").count() > 0
    page.get_by_label("Tenant").select_option("sample")
    page.get_by_role("button", name="Show").click()
    assert page.get_by_text("Sample data.").is_visible()


def test_a_key_lets_in_and_out_again(locked: Any, tabs: Any) -> None:
    page = tabs().page
    page.goto(f"{locked.address}/reasons?last=24h")
    assert "/login" in page.url
    page.get_by_role("textbox", name="Key").fill(locked.key)
    page.get_by_role("button", name="Log in").click()

    assert page.url.endswith("/reasons?last=24h")
    assert page.evaluate("document.cookie") == ""
    [cookie] = page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"]) == ("demur_session", True)
    assert cookie["sameSite"] == "Strict"
    assert locked.key not in str(cookie)
    page.goto(f"{locked.address}/review")
    page.keyboard.press("j")
    page.keyboard.press("g")
    page.locator(".item.done").wait_for()
    page.get_by_role("button", name="Log out").click()
    page.goto(locked.address)
    assert "/login" in page.url
    # The session itself has ended, not only the cookie.
    page.context.add_cookies([cookie])
    page.goto(locked.address)
    assert "/login" in page.url


@pytest.mark.parametrize("bad", BAD)
def test_nothing_that_came_in_runs(service: Any, tabs: Any, bad: str) -> None:
    name = bad.replace(":", ";")
    finding = {"code": "PROMPT_LEAK", "surface": "input", "detail": bad, "evidence": {bad: bad}}
    tab = tabs()
    page = tab.page
    page.goto(f"{service.address}/triage")
    sent = {
        "request": {
            "action": {"type": name, "intent": bad * 3, "amount": {"value": 1, "currency": bad}},
            "subject": {"type": name, "id": name},
            "request_id": name,
            "evidence": {bad: bad},
        },
        "findings": [{**finding, "span": {"start": 0, "end": len(bad)}}],
    }
    made = page.evaluate(
        """async (sent) => {
          const post = (path, body) => fetch(path, { method: "POST", body: JSON.stringify(body),
            headers: { "content-type": "application/json" } });
          const made = await (await post("/v1/decide", sent)).json();
          const label = { value: "false_refusal", note: sent.request.action.intent };
          await post(`/v1/decisions/${made.decision_id}/labels`, label);
          return made.decision_id;
        }""",
        sent,
    )
    for path in (
        *("/", "/decisions", "/reasons", "/reasons/PROMPT_LEAK", "/review", f"/decisions/{made}"),
        *("/review?queue=false_refusal", f"/decisions?q={name}", f"/codes?q={name}", f"/{name}"),
    ):
        page.goto(f"{service.address}{path.replace('#', '%23')}")
        page.wait_for_timeout(50)
        assert page.evaluate("window.ran") is None
        assert page.locator("iframe, img, main script").count() == 0
    page.goto(f"{service.address}/triage")
    log = {
        "name": f"{name}.log",
        "mimeType": "text/plain",
        "buffer": f"REFUSED: RCE_RISK: {bad}".encode(),
    }
    page.set_input_files("#log", log)
    page.locator("form.drop button").click()
    page.get_by_text("1 refusal in").wait_for()
    assert page.evaluate("window.ran") is None


def test_a_label_that_was_not_saved_is_reported_as_lost(service: Any, tabs: Any) -> None:
    tab = tabs()
    tab.page.route("**/review/label", lambda route: route.abort())
    tab.page.goto(f"{service.address}/review")
    tab.page.keyboard.press("j")
    tab.page.keyboard.press("g")
    tab.page.get_by_text("not kept").first.wait_for()

    assert tab.page.locator(".item.done").count() == 0
    # The console tells of the call that was cut off.
    tab.wrong.clear()
