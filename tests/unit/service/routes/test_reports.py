"""The report on a period over HTTP and as a page."""

import csv
import io
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from support.dashboard_site import Site, fill, site_of
from support.gates import NOON, Ticking, gate_over, refund
from support.service_app import add_key

from demur.service import heavy_work
from demur.store.opening import open_store

PERIOD = "since=2026-01-01&until=2028-01-01"


@pytest.fixture(params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    place = str(tmp_path / "records.db")
    if request.param == "postgresql":
        place = request.getfixturevalue("postgres_url")
    with (
        gate_over(open_store(place)) as gate,
        site_of(gate, clock=Ticking(NOON + timedelta(minutes=5))) as opened,
    ):
        fill(opened)
        yield opened


def test_json_csv_and_the_page_agree(site: Site) -> None:
    document = site.call("GET", f"/v1/report?{PERIOD}").json()
    answer = site.call("GET", f"/v1/report.csv?{PERIOD}")
    page = site.open(f"/report?{PERIOD}")

    assert document["schema_version"] == "period_report.v1"
    assert document["chains_hold"] is True
    assert document["tables"]["summary"][0] == {"what": "decisions", "count": 5}
    assert answer.headers["content-type"] == "text/csv"
    assert answer.headers["content-disposition"] == (
        'attachment; filename="demur-2026-01-01-2028-01-01.csv"'
    )
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert ["decisions", "5"] in rows
    assert "The chains are valid." in page.text
    titles = [one.text for one in page.all("h2")]
    assert len(titles) == len(document["tables"])
    assert "Policies in force" in titles


def test_two_reports_on_a_period_are_the_same(site: Site) -> None:
    for path in ("/v1/report", "/v1/report.csv"):
        first, second = (site.call("GET", f"{path}?{PERIOD}") for _ in range(2))
        assert first.content == second.content


def test_the_page_without_a_period_shows_the_form(site: Site) -> None:
    page = site.open("/report")
    fields = {
        one.attrs["name"]: one.attrs["value"] for one in page.all("input") if "name" in one.attrs
    }

    assert fields["since"] < fields["until"]
    assert not page.all("table")
    assert site.open(f"/report?since={fields['since']}&until=").all("table")


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("since=yesterday", "since"),
        ("since=2027-01-02&until=2027-01-01", "since"),
        ("until=%00", "until"),
        ("since=0001-01-01&until=99999-01-01", "until"),
    ],
)
def test_an_invalid_period_is_refused(site: Site, query: str, where: str) -> None:
    for path in ("/v1/report", "/v1/report.csv", "/report"):
        answer = site.call("GET", f"{path}?{query}")
        assert (answer.status_code, answer.json()["where"]) == (422, where)


def test_a_period_with_too_many_decisions_is_refused(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heavy_work, "_MAX_REPORTED", 2)
    answer = site.call("GET", f"/v1/report?{PERIOD}")

    assert answer.status_code == 422
    assert "demur audit report" in answer.json()["help"]


def test_a_report_takes_the_role_to_read(site: Site) -> None:
    key = add_key(site.call.store, "acme", "decide")
    reader = add_key(site.call.store, "acme", "read")

    for path in ("/v1/report", "/v1/report.csv", "/report"):
        assert site.call("GET", path, key=key).status_code == 403
        assert site.call("GET", path, key=reader).status_code == 200


def test_a_key_sees_its_tenant_alone(site: Site) -> None:
    reader = add_key(site.call.store, "acme", "read")
    document = site.call("GET", f"/v1/report?{PERIOD}", key=reader).json()

    assert document["tables"]["summary"][0] == {"what": "decisions", "count": 0}
    assert site.call("GET", "/v1/report?tenant=default", key=reader).status_code == 403


def test_a_key_of_all_tenants_may_name_one(site: Site) -> None:
    key = add_key(site.call.store, "", "read", "decide")
    site.call("POST", "/v1/decide", {"request": refund(tenant={"id": "acme"})}, key=key)
    both = site.call("GET", f"/v1/report?{PERIOD}", key=key).json()
    one = site.call("GET", f"/v1/report?{PERIOD}&tenant=acme", key=key).json()

    assert both["tenants"] == ["acme", "default"]
    assert (one["tenants"], one["tables"]["summary"][0]["count"]) == (["acme"], 1)
    assert site.call("GET", "/v1/report?tenant=nobody", key=key).json()["tenants"] == []
