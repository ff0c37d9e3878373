from dashboard_site import Site
from gates import CORE


def test_every_code_is_in_the_reference(site: Site) -> None:
    links = site.open("/codes").links()

    assert {f"/reasons/{entry.code}" for entry in CORE} <= links


def test_codes_are_searched_by_name_meaning_and_old_phrase(site: Site) -> None:
    by_name = site.open("/codes?q=chargeback risk").links()
    by_phrase = site.open("/codes?q=destructive command blocked").links()

    assert "/reasons/CHARGEBACK_RISK_BLOCK" in by_name
    assert "/reasons/RCE_RISK" not in by_name
    assert "/reasons/DESTRUCTIVE_ACTION" in by_phrase


def test_a_search_that_finds_nothing_helps_on(site: Site) -> None:
    assert "No code is like that" in site.open("/codes?q=zzzz").text
