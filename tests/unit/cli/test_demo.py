from support.command_line import demur

from demur.cli.start import build_tour
from demur.cli.terminal import Paint
from demur.codes.registry import Registry


def test_the_tour_formats_parses_classifies_and_resolves() -> None:
    text = "\n".join(build_tour(Registry.load(), Paint()))

    assert r"REFUSED: DESTRUCTIVE_ACTION: rm -rf /srv/data\u000aREFUSED: FAKE: x" in text
    assert "RATE_LIMIT (WORKFLOW_BLOCK, legacy phrase)" in text
    assert "no refusal" in text
    assert "SCOPE_MISSING -> needs something" in text
    assert "REFUND_OVER_ESCALATION_LIMIT: needs something -> allowed" in text
    assert "DESTRUCTIVE_ACTION: Destructive action" in text
    assert "CHARGEBACK_RISK_BLOCK: refused -> refused" in text


def test_it_reads_the_same_every_time() -> None:
    first, second = demur("demo"), demur("demo")

    assert first.status == 0
    assert first.out == second.out


def test_the_tour_decides_stores_lifts_learns_and_proves() -> None:
    text = "\n".join(build_tour(Registry.load(), Paint()))

    for shown in (
        "large-refund.json          needs something  REFUND_OVER_ESCALATION_LIMIT",
        "needs something -> allowed",
        "FAILURE_MEMORY_SIMILAR_BLOCK (likeness 1.00)",
        "replayed offline: the same decision",
        "one byte changed: record.json: the member was changed",
        "the chain of 6 records holds",
    ):
        assert shown in text
