import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.dashboard_site import HTML, Page, Site
from support.gates import CORE, NOON

from demur.codes.registry import Registry
from demur.gate.guard_settings import GuardSettings
from demur.gate.pipeline import GuardPipeline
from demur.service.dashboard.triage import LogCounts, summarize_log
from demur.service.heavy_work import WorkContext, scan_log
from demur.triage.counts import TriageOptions
from demur.triage.report import counts_json
from demur.triage.scan import scan_lines


def counted(name: str, content: bytes, registry: Registry = CORE) -> LogCounts:
    context = WorkContext(GuardSettings(), registry, GuardPipeline([]))
    counts = scan_log(
        context, content, name, TriageOptions(now=NOON, samples=1, timed=True), 1 << 20
    )
    return summarize_log(name, counts, registry)


def sent(site: Site, content: bytes, name: str = "a.log") -> Page:
    head = f'Content-Disposition: form-data; name="log"; filename="{name}"'
    body = b"--edge\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n--edge--\r\n"
    headers = {**HTML, "content-type": "multipart/form-data; boundary=edge"}
    answer = site.call("POST", "/triage", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return Page(answer.text)


def test_the_counts_of_a_log_are_shown(site: Site) -> None:
    page = sent(site, b"REFUSED: RCE_RISK: x\nREFUSED: MADE_UP: y\n")

    assert "1 refusal in a.log" in page.text
    assert "Not in this number: 1 of codes that no registry knows" in page.text
    assert "/reasons/RCE_RISK" in page.links()
    assert "MADE_UP unknown" in page.text


def test_a_log_without_refusals_shows_what_one_looks_like(site: Site) -> None:
    page = sent(site, b"all fine\n", "<b>.log")

    assert "0 refusals in <b>.log" in page.text
    assert "REFUSED: RCE_RISK" in page.text


def test_the_page_asks_for_a_log(site: Site) -> None:
    page = site.open("/triage")

    assert [one.attrs["name"] for one in page.all("input") if one.attrs["type"] == "file"] == [
        "log"
    ]
    assert site.send("/triage", {}).status_code == 415


LOG = (
    b"REFUSED: RCE_RISK: curl | sh\n" * 3
    + b"destructive command blocked\n"
    + b"REFUSED: MADE_UP: what\n"
    + b"all fine\n"
)


@pytest.mark.parametrize("content", [LOG, gzip.compress(LOG)])
def test_codes_are_counted_by_form(content: bytes) -> None:
    counts = counted("a.log", content)
    first, old, unknown = counts.codes

    assert counts.total == 4
    assert counts.notes == ["Not in this number: 1 of codes that no registry knows"]
    assert (first.code, first.count, first.canonical, first.percent) == ("RCE_RISK", 3, 3, 75)
    assert (old.code, old.legacy, old.known) == ("DESTRUCTIVE_ACTION", 1, True)
    assert (unknown.code, unknown.known, unknown.count) == ("MADE_UP", False, 1)
    assert unknown.percent == 0
    assert first.sample == "REFUSED: RCE_RISK: curl | sh"


def test_the_page_and_the_programs_tell_the_same_total() -> None:
    options = TriageOptions(registry=CORE)
    told = counts_json(scan_lines(LOG, options), ["code"], CORE)

    assert counted("a.log", LOG).total == told["total"]


def test_codes_of_the_registry_at_hand_are_known(tmp_path: Path, acme_text: Any) -> None:
    path = tmp_path / "acme.json"
    path.write_text(acme_text({"code": "acme.com/LATE"}))
    line = b"REFUSED: acme.com/LATE: x\n"
    [late] = counted("a.log", line, Registry.load(path)).codes

    assert (late.known, late.canonical, late.percent) == (True, 1, 100)
    assert counted("a.log", line).total == 0


def test_a_quoted_refusal_is_separate_and_not_counted() -> None:
    line = b'{"message": "prompt: say REFUSED: RCE_RISK: now"}\n' * 2
    counts = counted("", line)

    assert counts.name == "a log without a name"
    assert counts.total == 0
    assert [(one.quoted, one.count, one.percent) for one in counts.codes] == [(2, 0, 0.0)]


def test_a_damaged_log_is_read_as_far_as_it_goes() -> None:
    counts = counted("a.gz", gzip.compress(LOG)[:-12])

    assert any("Read as far as it goes" in note for note in counts.notes)


TIMED = (
    b"2027-01-01T09:10:00Z REFUSED: RCE_RISK: a\n" * 2
    + b"2027-01-01T11:59:00Z REFUSED: RCE_RISK: b\n"
    + b"REFUSED: RCE_RISK: no time\n"
)


def test_refusals_are_drawn_over_time() -> None:
    counts = counted("a.log", TIMED)
    assert counts.times is not None

    assert [bar.total for bar in counts.times.bars] == [2, 0, 1]
    assert counts.times.bars[0].bucket.start == "2027-01-01T09:00:00.000Z"
    assert counts.undated == 1


def test_a_long_log_is_drawn_in_longer_steps() -> None:
    lines = (
        b"%d-01-01T00:00:00Z REFUSED: RCE_RISK: a\n" % year for year in (1969, 1999, 2027, 9999)
    )
    counts = counted("a.log", b"".join(lines))
    assert counts.times is not None

    assert len(counts.times.bars) <= 96
    assert sum(bar.total for bar in counts.times.bars) == 2
    assert counts.undated == 2


def test_a_log_without_times_is_not_drawn() -> None:
    assert counted("a.log", LOG).times is None


def test_the_counts_can_be_downloaded_from_the_page(site: Site) -> None:
    page = sent(site, TIMED, "dir/agent.2027.log")
    [table, document] = [one for one in page.all("button") if "data-download" in one.attrs]
    texts = {one.attrs.get("id"): "".join(one.own) for one in page.all("pre")}

    assert table.attrs["data-name"] == "agent-refusals.csv"
    assert texts[table.attrs["data-download"]].splitlines()[1].startswith("RCE_RISK,4,0,4,")
    assert json.loads(texts[document.attrs["data-download"]])["total"] == 4
    assert "Over time" in page.text
    assert "1 refusal without a usable time" in page.text
