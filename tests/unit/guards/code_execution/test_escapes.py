import pytest

from demur.guards.code_execution.escapes import decode_ansi_c


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("plain", "plain"),
        ("\\x72\\x6d", "rm"),
        ("\\162\\155", "rm"),
        ("\\0162", "r"),
        ("\\u0072\\U0000006d", "rm"),
        ("a\\nb\\tc", "a\nb\tc"),
        ("\\\\", "\\"),
        ("\\q", "q"),
        ("\\x", "x"),
        ("\\0", ""),
        ("\\UFFFFFFFF", ""),
        ("end\\", "end\\"),
    ],
)
def test_escapes_are_undone(text: str, want: str) -> None:
    assert decode_ansi_c(text) == want
