from datetime import timedelta

from support.dashboard_site import HTML, Element, Page, Site, site_of, small_site
from support.gates import NOON, Ticking, finding, gate_over, refund
from support.service_app import add_key

from demur.codes.registry import Registry
from demur.observe.metrics import Metrics
from demur.service.sample import SAMPLE_TENANT
from demur.store.opening import open_store

LATER = Ticking(NOON + timedelta(minutes=5))
RISKY = {"ticket_id": "T-1", "chargeback_risk": 0.95}


def test_the_overview_counts_verdicts_reasons_and_surfaces(site: Site) -> None:
    page = site.open("/")

    assert "20.0 %" in page.text
    assert "/reasons/CHARGEBACK_RISK_BLOCK?last=24h" in page.links()
    assert "/decisions?last=24h&verdict=DENY&code=CHARGEBACK_RISK_BLOCK" in page.links()
    assert len([link for link in page.links() if link.startswith("/decisions/")]) == 5


def test_a_code_in_over_a_tenth_of_all_decisions_is_an_alert(site: Site) -> None:
    page = site.open("/?last=7d")

    assert "over 10 %" in page.text
    assert "in 20.0 % of all decisions" in page.text


def test_an_alert_rule_that_fires_says_why_and_what_to_do() -> None:
    with small_site(clock=LATER) as site:
        risk = {"code": "RCE_RISK", "surface": "code_execution"}
        for _ in range(20):
            site.decide(refund())
        site.decide({"action": {"type": "run"}}, findings=[risk])
        page = site.open("/")

    assert "Code execution tried" in page.text
    assert "RCE_RISK: 1 in the last hour, over 0" in page.text
    assert "What to do" in page.text
    assert "1 alert" in page.text


def test_an_empty_overview_tells_the_next_command(empty: Site) -> None:
    page = empty.open("/")

    assert "No decisions yet" in page.text
    assert "/v1/decide" in page.text
    assert not page.all("table")


def test_the_first_command_goes_to_the_address_of_the_page(empty: Site) -> None:
    answer = empty.call("GET", "/", headers={**HTML, "host": "localhost:9123"})

    assert "curl -s http://localhost:9123/v1/decide -H" in Page(answer.text).text
    assert "8642" not in answer.text


def test_the_first_command_has_a_key_where_one_is_needed() -> None:
    with gate_over(open_store(":memory:")) as gate:
        assert gate.store is not None
        key = add_key(gate.store, "acme", "read")
        with site_of(gate, clock=LATER) as site:
            answer = site.call("GET", "/", key=key, headers=HTML)

    assert '-H "authorization: Bearer $DEMUR_KEY"' in Page(answer.text).text


def by_id(page: Page, name: str) -> Element:
    [found] = [one for one in page.all() if one.attrs.get("id") == name]
    return found


def tiles(page: Page) -> dict[str, str]:
    return {
        one.all("h2")[0].text: one.all("p")[0].text
        for one in page.all("div")
        if "tile" in one.attrs.get("class", "").split()
    }


def test_every_outcome_leads_with_its_number(site: Site) -> None:
    page = site.open("/")

    assert list(tiles(page)) == [
        *("Allowed", "Allowed with limits", "Needs something", "Could not judge", "Refused"),
        "All decisions",
    ]
    assert sum(int(one) for one in list(tiles(page).values())[:-1]) == 5
    assert tiles(page)["All decisions"] == "5"
    assert "/decisions?last=24h&outcome=refused" in page.links()


def test_what_waits_for_a_person_comes_first(site: Site) -> None:
    page = site.open("/")
    [waits] = [one for one in page.all("section") if one.attrs.get("class") == "waits"]
    [review] = [one for one in waits.all("a") if one.attrs["href"].startswith("/review")]

    assert review.attrs["href"] == "/review"
    assert int(review.all("b")[0].text) >= 1


def test_no_code_is_listed_twice(site: Site) -> None:
    page = site.open("/")
    figures = by_id(page, "figures")
    codes = [one.text for one in figures.all("a") if "code" in one.attrs.get("class", "").split()]
    listed = [one for table in figures.all("table") for one in table.all("a")]

    assert len({one.text for one in listed if one.text in codes}) == len(
        [one for one in listed if one.attrs.get("class") == "code"]
    )


def test_the_overview_says_how_the_service_runs() -> None:
    metrics = Metrics()
    with (
        gate_over(open_store(":memory:")) as gate,
        site_of(gate, clock=LATER, metrics=metrics) as site,
    ):
        failed = {"code": "GUARDRAIL_UNAVAILABLE", "surface": "input"}
        site.decide(refund(), findings=[failed])
        with metrics.time_decision():
            pass
        metrics.count_call("/v1/decide", "POST", 200, 0.01)
        metrics.count_call("/v1/decide", "POST", 422, 0.01)
        metrics.count_call("/v1/decide", "POST", 500, 0.01)
        page = site.open("/")

    [figures] = [one for one in page.all("dl") if "running" in one.attrs["class"].split()]
    shown = dict(zip([d.text for d in figures.all("dt")], figures.all("dd"), strict=True))
    assert shown["Guards without a verdict"].text == "1 decision"
    assert "half within" in shown["A decision takes"].text
    assert shown["Errors of callers"].text == "1 4xx"
    assert shown["Errors of the service"].text == "1 5xx"


def test_a_key_of_one_tenant_sees_no_figures_of_all() -> None:
    with gate_over(open_store(":memory:")) as gate:
        assert gate.store is not None
        gate.decide(refund(), tenant="acme")
        key = add_key(gate.store, "acme", "read")
        with site_of(gate, clock=LATER, metrics=Metrics()) as site:
            text = site.call("GET", "/", key=key, headers=HTML).text

    assert "How it runs" in text
    assert "Errors of the service" not in text


def test_alerts_leave_sample_decisions_out_as_the_command_does(empty: Site) -> None:
    gate = empty.call.service.gate
    gate.decide(refund(), findings=[finding("RCE_RISK")], tenant=SAMPLE_TENANT)
    gate.decide(refund(), tenant="acme")

    assert "over 0" not in empty.open("/").text
    assert "Both leave sample data out." in empty.open("/").text
    assert "RCE_RISK: 1 in the last hour, over 0" in empty.open("/?tenant=sample").text


def test_a_quiet_period_says_so() -> None:
    clock = Ticking(NOON - timedelta(days=20))
    with gate_over(open_store(":memory:"), clock=clock) as gate, site_of(gate, clock=LATER) as site:
        site.decide(refund())
        page = site.open("/")

    assert "Nothing was refused in this period." in page.text
    assert "All quiet" in page.text


def test_the_overview_can_be_limited_to_one_tenant(site: Site) -> None:
    gate = site.call.service.gate
    gate.decide(refund(evidence=RISKY), tenant="other")
    page = site.open("/?tenant=other")

    assert "tenant other" in page.text
    assert "100.0 %" in page.text


def test_many_tenants_have_one_state_of_alerts(empty: Site) -> None:
    for number in range(10):
        empty.call.service.gate.decide(refund(), tenant=f"t{number}")

    assert "All quiet" in empty.open("/").text


def test_sample_decisions_are_labelled_as_sample_data(empty: Site) -> None:
    empty.call.service.gate.decide(refund(), tenant=SAMPLE_TENANT)
    empty.call.service.gate.decide(refund(), tenant="acme")

    assert "Sample data." in empty.open("/").text
    assert "All of this was made up" in empty.open("/?tenant=sample").text
    assert "Sample data." not in empty.open("/?tenant=acme").text


def test_reasons_are_listed_with_their_share(site: Site) -> None:
    page = site.open("/reasons")

    assert "/reasons/PROMPT_LEAK?last=7d" in page.links()
    assert "/decisions?last=7d&verdict=DENY&code=CHARGEBACK_RISK_BLOCK" in page.links()
    assert "Chargeback risk" in page.text


def test_without_reasons_the_page_says_so(empty: Site) -> None:
    assert "No reasons in this period" in empty.open("/reasons").text


def test_one_reason_tells_its_meaning_rules_and_decisions(site: Site) -> None:
    page = site.open("/reasons/CHARGEBACK_RISK_BLOCK?last=30d")

    assert "R_CHARGEBACK" in page.text
    assert "evidence.chargeback_risk is at least 0.9" in page.text
    assert "1 decision, 20.0" in page.text
    assert "over 10 %" in page.text
    assert len([link for link in page.links() if link.startswith("/decisions/")]) == 1


def test_a_reason_names_its_risks_and_where_it_comes_from(site: Site) -> None:
    page = site.open("/reasons/PROMPT_LEAK")

    assert "OWASP Top 10 for LLM Applications" in page.text
    assert "/codes?last=7d&q=PROMPT_LEAK" in page.links()
    assert "By subject" in page.text
    assert "By action" in page.text
    assert "By tenant" in page.text
    assert any(
        link.startswith("/decisions?last=7d&action=") and link.endswith("&code=PROMPT_LEAK")
        for link in page.links()
    )


def test_reasons_are_listed_with_their_risks(site: Site) -> None:
    [row] = [one for one in site.open("/reasons").all("tr") if "PROMPT_LEAK" in one.text]

    assert "LLM07" in row.text


def test_an_unused_reason_still_has_its_meaning(site: Site) -> None:
    page = site.open("/reasons/RCE_RISK")

    assert "No rule names it" in page.text
    assert "No decision gave this reason" in page.text
    assert "Examples of the registry" in page.text


def test_a_code_that_nobody_knows_is_not_found(site: Site) -> None:
    assert "there is no such code" in site.open("/reasons/NO_SUCH_CODE", 404).text


def test_unknown_and_deprecated_codes_are_pointed_out(registry_in_change: Registry) -> None:
    store = open_store(":memory:")
    with (
        gate_over(store, registry=registry_in_change) as gate,
        site_of(gate, clock=LATER) as old_site,
    ):
        old = {"code": "acme.com/OLD_WAY", "surface": "input"}
        old_site.decide({"action": {"type": "x"}}, findings=[old])
        with site_of(gate_over(store), clock=LATER) as new_site:
            assert "no registry knows it" in new_site.open("/reasons").text
            assert "Unknown code." in new_site.open("/reasons/acme.com/OLD_WAY").text
        assert "deprecated, use acme.com/NEW_WAY" in old_site.open("/reasons").text
        assert "Deprecated since 1.1.0." in old_site.open("/reasons/acme.com/OLD_WAY").text
        assert "acme.com/OLD_WAY" in old_site.open("/reasons/POLICY_VIOLATION").text
