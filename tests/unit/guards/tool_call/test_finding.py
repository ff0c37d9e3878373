from demur.guards.tool_call.finding import shorten_name, tool_finding


def test_a_detail_and_a_name_are_bounded() -> None:
    finding = tool_finding(
        "t" * 500, "UNVERIFIED_TOOL", rule="X", detail="d" * 500, facts={"more": 1}
    )

    assert len(finding.detail) == 120
    assert finding.evidence == {"rule": "X", "tool": "t" * 100, "more": 1}


def test_a_name_with_line_breaks_stays_on_its_line() -> None:
    assert shorten_name("a\nb") == "a\N{REPLACEMENT CHARACTER}b"


def test_a_long_name_shows_that_it_goes_on() -> None:
    assert shorten_name("a" * 60) == "a" * 39 + "…"
