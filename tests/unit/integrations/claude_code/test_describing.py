from demur.integrations.claude_code.describing import LONGEST, describe_tool


def test_a_long_text_is_cut_wherever_it_stands() -> None:
    long = "x" * (LONGEST + 1)
    described = describe_tool("Write", {"content": long, "edits": [{"new": long}], "n": 3})
    cut = f"{'x' * LONGEST} ... ({LONGEST + 1} characters)"

    assert described["action"] == {"type": "Write"}
    assert described["evidence"] == {"content": cut, "edits": [{"new": cut}], "n": 3}


def test_a_short_text_stays_as_it_is() -> None:
    assert describe_tool("Bash", {"command": "ls"})["evidence"] == {"command": "ls"}
