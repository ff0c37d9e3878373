from datetime import timedelta

from dashboard_site import Site, site_of, small_site
from gates import NOON, Ticking, gate_over, refund

from demur.service.sample.day import SAMPLE_TENANT
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


def test_one_tenant_can_be_looked_at_alone(site: Site) -> None:
    gate = site.call.service.gate
    gate.decide(refund(evidence=RISKY), tenant="other")
    page = site.open("/?tenant=other")

    assert "tenant other" in page.text
    assert "100.0 %" in page.text


def test_many_tenants_have_one_state_of_alerts(empty: Site) -> None:
    for number in range(10):
        empty.call.service.gate.decide(refund(), tenant=f"t{number}")

    assert "All quiet" in empty.open("/").text


def test_sample_decisions_are_said_to_be_made_up(empty: Site) -> None:
    empty.call.service.gate.decide(refund(), tenant=SAMPLE_TENANT)
    empty.call.service.gate.decide(refund(), tenant="acme")

    assert "Sample data." in empty.open("/").text
    assert "All of this was made up" in empty.open("/?tenant=sample").text
    assert "Sample data." not in empty.open("/?tenant=acme").text
