import pytest

from demur.guards.code_execution.programs import program_name


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("rm", "rm"),
        ("/bin/rm", "rm"),
        ("./x.sh", "x.sh"),
        ("C:\\Windows\\Reg.EXE", "reg"),
        ("mkfs.ext4", "mkfs.ext4"),
        ("", ""),
        ("/", "/"),
        (".exe", ".exe"),
    ],
)
def test_a_program_has_a_bare_name(name: str, want: str) -> None:
    assert program_name(name) == want
