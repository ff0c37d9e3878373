from datetime import timedelta

from support.dashboard_site import Site, site_of, small_site
from support.gates import NOON, Ticking, gate_over, refund

from demur.codes.registry import Registry
from demur.service.sample import SAMPLE_TENANT
from demur.store.opening import open_store

LATER = Ticking(NOON + timedelta(minutes=5))
RISKY = {"ticket_id": "T-1", "chargeback_risk": 0.95}


def test_the_overview_counts_verdicts_reasons_and_surfaces(site: Site) -> None:
    page = site.open("/")

    assert "20.0 %" in page.text
    assert "/reasons/CHARGEBACK_RISK_BLOCK?period=24h" in page.links()
    assert "/decisions?verdict=DENY&code=CHARGEBACK_RISK_BLOCK" in page.links()
    assert "CONTEXT_INJECTION 1, PROMPT_LEAK 1" in page.text
    assert len([link for link in page.links() if link.startswith("/decisions/")]) == 5


def test_a_code_in_over_a_tenth_of_all_decisions_is_an_alert(site: Site) -> None:
    page = site.open("/?period=7d")

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


def test_a_quiet_period_says_so() -> None:
    clock = Ticking(NOON - timedelta(days=20))
    with gate_over(open_store(":memory:"), clock=clock) as gate, site_of(gate, clock=LATER) as site:
        site.decide(refund())
        page = site.open("/")

    assert "Nothing was refused in this period." in page.text
    assert "No denials in the last 7 days." in page.text
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

    assert "/reasons/PROMPT_LEAK?period=7d" in page.links()
    assert "/decisions?verdict=DENY&code=CHARGEBACK_RISK_BLOCK" in page.links()
    assert "Chargeback risk" in page.text


def test_without_reasons_the_page_says_so(empty: Site) -> None:
    assert "No reasons in this period" in empty.open("/reasons").text


def test_one_reason_tells_its_meaning_rules_and_decisions(site: Site) -> None:
    page = site.open("/reasons/CHARGEBACK_RISK_BLOCK?period=30d")

    assert "R_CHARGEBACK" in page.text
    assert "evidence.chargeback_risk is at least 0.9" in page.text
    assert "1 decision, 20.0" in page.text
    assert "over 10 %" in page.text
    assert len([link for link in page.links() if link.startswith("/decisions/")]) == 1


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
