import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dashboard_site import Site
from support.gates import refund
from support.people import add_person
from support.service_app import add_key

from demur.service.dashboard.downloads import to_csv_cell, write_csv, write_json

FORMULAS = ("=1+1", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\uff1d1", "\n=1", "\0=1")


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_list_of_decisions_is_a_file(site: Site) -> None:
    answer = site.get("/download/decisions.csv?verdict=DENY")
    rows = read_csv(answer.text)
    listed = json.loads(site.get("/download/decisions.json").text)

    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="demur-decisions.csv"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert {row["verdict"] for row in rows} == {"DENY"}
    assert "CHARGEBACK_RISK_BLOCK" in rows[0]["reason_codes"]
    assert len(listed) == 5
    assert listed[0]["decision_id"] > listed[-1]["decision_id"]
    assert listed[0]["request"]


def test_a_search_and_a_range_narrow_the_file(site: Site) -> None:
    assert len(read_csv(site.get("/download/decisions.csv?q=ada").text)) == 2
    assert read_csv(site.get("/download/decisions.csv?until=2020-01-01").text) == []
    oldest = json.loads(site.get("/download/decisions.json?sort=oldest&last=24h").text)
    assert [one["decision_id"] for one in oldest] == sorted(one["decision_id"] for one in oldest)


def test_many_rows_are_all_in_the_file(empty: Site) -> None:
    for number in range(450):
        empty.call.service.gate.decide(refund(request_id=f"r-{number}"), tenant="acme")
    rows = read_csv(empty.get("/download/decisions.csv").text)

    assert {row["request_id"] for row in rows} == {f"r-{number}" for number in range(450)}
    assert len(json.loads(empty.get("/download/decisions.json").text)) == 450


def test_reasons_and_labels_are_files(site: Site) -> None:
    decision_id = site.decide(refund())
    site.call("POST", f"/v1/decisions/{decision_id}/labels", {"value": "good", "note": "=cmd()"})
    reasons = read_csv(site.get("/download/reasons.csv?last=24h").text)
    [label] = read_csv(site.get("/download/labels.csv").text)

    assert {"PROMPT_LEAK", "CHARGEBACK_RISK_BLOCK"} <= {row["code"] for row in reasons}
    assert sum(int(row["deny"]) for row in reasons) > 0
    assert (label["decision_id"], label["value"]) == (decision_id, "good")
    assert label["note"] == "'=cmd()"
    assert json.loads(site.get("/download/labels.json?until=2020-01-01").text) == []


def test_grants_are_for_admins(site: Site) -> None:
    store = site.call.store
    reader, admin = add_key(store, "acme", "read"), add_key(store, "acme", "read", "admin")

    assert site.get("/download/grants.csv", authorization=f"Bearer {reader}").status_code == 403
    answer = site.get("/download/grants.csv", authorization=f"Bearer {admin}")
    assert answer.text.startswith("grant_id,tenant,state")


def test_requests_for_approval_are_a_file(site: Site) -> None:
    waiting = read_csv(site.get("/download/approvals.csv").text)
    listed = json.loads(site.get("/download/approvals.json?group=nobody").text)

    assert [row["state"] for row in waiting] == ["waiting"] * len(waiting)
    assert waiting[0]["action"] == "refund"
    assert waiting[0]["amount"] == "400"
    assert waiting[0]["needed"] == "1"
    assert [row["decision_id"] for row in waiting] == sorted(row["decision_id"] for row in waiting)
    assert {row["group"] for row in listed} == {""}
    assert read_csv(site.get("/download/approvals.csv?tab=decided").text) == []


def test_many_requests_are_all_in_the_file(empty: Site) -> None:
    for number in range(450):
        empty.call.service.gate.decide(refund(400, request_id=f"r-{number}"), tenant="acme")
    rows = read_csv(empty.get("/download/approvals.csv").text)

    assert len({row["decision_id"] for row in rows}) == len(rows) == 450


def test_people_are_for_admins_and_without_passwords(site: Site) -> None:
    store = site.call.store
    add_person(store, "mary", tenant="acme", password_hash="secret-hash")
    add_person(store, "john", tenant="globex")
    reader, admin = add_key(store, "acme", "read"), add_key(store, "acme", "read", "admin")

    assert site.get("/download/people.csv", authorization=f"Bearer {reader}").status_code == 403
    answer = site.get("/download/people.csv", authorization=f"Bearer {admin}")
    assert [row["login"] for row in read_csv(answer.text)] == ["mary"]
    assert "secret-hash" not in answer.text


def test_a_tenant_downloads_its_own_decisions(site: Site) -> None:
    store = site.call.store
    site.call.service.gate.decide(refund(request_id="theirs"), tenant="acme")
    key = add_key(store, "acme", "read")
    rows = read_csv(site.get("/download/decisions.csv", authorization=f"Bearer {key}").text)

    assert [row["request_id"] for row in rows] == ["theirs"]
    other = site.get("/download/decisions.csv?tenant=default", authorization=f"Bearer {key}")
    assert other.status_code == 403
    assert site.get("/download/decisions.csv").status_code in {303, 401}


@pytest.mark.parametrize("name", ["decisions", "decisions.xml", "keys.csv", "%2e%2e.csv", ".csv"])
def test_there_are_no_other_lists(site: Site, name: str) -> None:
    assert site.get(f"/download/{name}").status_code == 404


def test_a_list_that_fails_is_an_error_and_no_file(site: Site) -> None:
    for query in ("since=never", "verdict=DENNY", "code=NO_SUCH_CODE", "before=x"):
        assert site.get(f"/download/decisions.csv?{query}").status_code == 422


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_is_a_formula(text: str) -> None:
    assert to_csv_cell(text).startswith("'")
    assert to_csv_cell([text]).startswith("'")


def test_numbers_stay_numbers() -> None:
    assert [to_csv_cell(one) for one in (-5, -2.5, 1000000, True, None)] == [
        *("-5", "-2.5", "1000000", "yes", "")
    ]


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b"]), st.text()), max_size=5))
def test_a_csv_file_gives_back_what_is_in_it(rows: list[dict[str, Any]]) -> None:
    text = b"".join(write_csv(rows, ("a", "b"))).decode()
    back = read_csv(text)

    assert len(back) == len(rows)
    for row, found in zip(rows, back, strict=True):
        for name in ("a", "b"):
            own = row.get(name, "").encode("utf-8", "replace").decode().replace("\0", "")
            assert found[name] in {own, f"'{own}"}
            assert not found[name].lstrip().startswith(("=", "+", "-", "@"))


@given(st.lists(st.dictionaries(st.text(max_size=3), st.integers(0, 9)), max_size=450))
def test_a_json_file_is_one_array(rows: list[dict[str, int]]) -> None:
    assert json.loads(b"".join(write_json(rows))) == rows
