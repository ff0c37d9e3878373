import pytest
from skills import actions, findings, seen

from demur.model.finding import Action


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("lib.so", b"\x7fELF\x02\x01\0"),
        ("tool.exe", b"MZ\x90\0"),
        ("data.zip", b"PK\x03\x04\0"),
        ("data.gz", b"\x1f\x8b\x08\0"),
    ],
)
def test_compiled_and_packed_files_were_not_judged(path: str, data: bytes) -> None:
    assert actions(data, path) == {"FILE_BINARY": Action.WARN}


@pytest.mark.parametrize(
    ("path", "data"),
    [("logo.png", b"\x89PNG\r\n\0"), ("notes", b"just words"), ("a.css", b"p {}"), ("a.pyi", b"x")],
)
def test_pictures_and_plain_files_pass(path: str, data: bytes) -> None:
    assert seen(data, path) == set()


@pytest.mark.parametrize(
    ("path", "data", "action"),
    [
        ("static/app.js", b"alert(1)", Action.WARN),
        ("scripts/app.js", b"alert(1)", Action.ESCALATE),
        ("app.mjs", b"#!/usr/bin/env node\nalert(1)", Action.ESCALATE),
        ("tool", b"#!/usr/bin/env node\nalert(1)", Action.ESCALATE),
        ("tool", b"#!/usr/bin/perl\nprint 1", Action.ESCALATE),
        ("tool", b"#!", Action.ESCALATE),
    ],
)
def test_programs_in_other_languages_were_not_judged(
    path: str, data: bytes, action: Action
) -> None:
    assert actions(data, path) == {"FILE_LANGUAGE": action}


def test_bytecode_without_a_source_is_asked_about() -> None:
    assert actions(b"\xa7\r\r\n" + b"\0" * 12, "mod.pyc") == {"FILE_BYTECODE": Action.ESCALATE}


@pytest.mark.parametrize(("flags", "found"), [(0, []), (3, []), (1, ["FILE_BYTECODE"])])
def test_bytecode_beside_its_source_counts_if_nothing_checks_it(
    flags: int, found: list[str]
) -> None:
    code = b"\xa7\r\r\n" + flags.to_bytes(4, "little") + b"\0" * 8
    files = {"pkg/mod.py": b"x = 1\n", "pkg/__pycache__/mod.cpython-311.pyc": code}

    assert [one.evidence["rule"] for one in findings(files)] == found
