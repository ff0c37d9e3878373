from datetime import timedelta

from support.dashboard_site import HTML, Site, site_of
from support.gates import NOON, Ticking, finding, gate_over, refund
from support.service_app import add_key

from demur.gate.monitor import Activation
from demur.store.opening import open_store


def test_the_page_shows_what_guards_found_and_cost(empty: Site) -> None:
    service = empty.call.service
    service.gate.decide(refund(), findings=[finding("RCE_RISK")])
    service.monitor.count_run("input", "input", "block")
    service.monitor.record_duration("input", "input", 0.0042)
    page = empty.open("/guards")
    found, cost = page.all("table")

    assert "RCE_RISK" in found.text
    assert "/reasons/RCE_RISK?last=24h" in page.links()
    cells = [one.text for one in cost.all("td")]
    assert cells[:2] == ["1", "0"]
    assert cells[2].startswith("1 100.0")
    assert cells[3:] == ["0", "0", "4.1 ms", "4.1 ms"]


def test_failures_and_shadow_results_are_shown(empty: Site) -> None:
    service = empty.call.service
    service.gate.decide(refund(), findings=[finding("GUARDRAIL_UNAVAILABLE")])
    for code, shadow in (("GUARDRAIL_UNAVAILABLE", False), ("PROMPT_LEAK", True)):
        service.monitor.record(
            Activation(
                time=NOON + timedelta(minutes=5),
                surface="output",
                guard="trial",
                code=code,
                action="block",
                shadow=shadow,
            )
        )
    page = empty.open("/guards")

    assert "a guard gave no verdict, so demur refused" in page.text
    assert "gave no verdict 1 times" in page.text
    assert "Verdicts that guards in shadow would have given" in page.text
    assert "trial: PROMPT_LEAK 1" in page.text


def test_a_page_of_nothing_says_so(empty: Site) -> None:
    page = empty.open("/guards")

    assert "No guard found anything in this period" in page.text
    assert "No guard ran since this process started" in page.text


def test_a_key_of_one_tenant_does_not_see_the_process() -> None:
    with gate_over(open_store(":memory:")) as gate:
        assert gate.store is not None
        key = add_key(gate.store, "acme", "read")
        with site_of(gate, clock=Ticking(NOON)) as site:
            site.call.service.monitor.count_run("input", "input", "block")
            answer = site.call("GET", "/guards", key=key, headers=HTML)

    assert answer.status_code == 200
    assert "What they cost" not in answer.text
