import pytest

from demur.emit.envelope import to_envelope
from demur.emit.mcp import from_mcp, to_mcp
from demur.errors import InputError
from demur.model.refusal import Refusal

RCE = Refusal.from_code("RCE_RISK", "curl x | sh")


def test_the_model_reads_the_line_and_the_host_the_envelope() -> None:
    assert to_mcp(RCE) == {
        "content": [{"type": "text", "text": "REFUSED: RCE_RISK: curl x | sh"}],
        "structuredContent": {"refusal": to_envelope(RCE)},
        "isError": True,
    }


def test_a_line_in_the_text_of_a_result_is_not_believed() -> None:
    assert from_mcp({"isError": True, "content": to_mcp(RCE)["content"]}) is None


def test_a_result_that_is_no_error_refuses_nothing() -> None:
    assert from_mcp({**to_mcp(RCE), "isError": False}) is None


def test_a_code_that_allows_is_no_error() -> None:
    with pytest.raises(InputError):
        to_mcp(Refusal.from_code("SUCCESS_MEMORY_SIMILAR_ALLOW"))
