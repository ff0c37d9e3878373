from datetime import timedelta

from dashboard_site import Site, site_of
from gates import NOON, Ticking, gate_over

from demur.codes.registry import Registry
from demur.store.opening import open_store

LATER = Ticking(NOON + timedelta(minutes=5))


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


def test_a_reason_that_was_never_given_still_has_its_meaning(site: Site) -> None:
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
