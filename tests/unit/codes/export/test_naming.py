import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.export.naming import camel_name, constant_name, distinct_names
from demur.codes.names import is_code

LABEL = "[a-z0-9]([a-z0-9-]{0,3}[a-z0-9])?"
CODES = st.from_regex(
    rf"({LABEL}\.{LABEL}/|x-local/)?[A-Z][A-Z0-9_]{{0,5}}[A-Z0-9]", fullmatch=True
)


@pytest.mark.parametrize(
    ("code", "constant", "camel"),
    [
        ("RCE_RISK", "RCE_RISK", "RceRisk"),
        ("acme.com/KYC_EXPIRED", "ACME_COM_KYC_EXPIRED", "AcmeComKycExpired"),
        ("x-local/TRIAL", "X_LOCAL_TRIAL", "XLocalTrial"),
        ("3m.com/LATE", "_3M_COM_LATE", "X3mComLate"),
        ("A__B2", "A__B2", "AB2"),
    ],
)
def test_names_read_like_the_code(code: str, constant: str, camel: str) -> None:
    assert constant_name(code) == constant
    assert camel_name(code) == camel


@given(st.lists(CODES, unique=True))
def test_no_two_codes_share_a_name_and_no_code_has_a_reserved_one(codes: list[str]) -> None:
    """INVARIANT: no two codes share a name, and no code has a reserved one."""
    assert all(map(is_code, codes))
    for spell, form in ((constant_name, r"[A-Z_][A-Z0-9_]*"), (camel_name, r"[A-Z][A-Za-z0-9_]*")):
        reserved = {spell(code) for code in codes[:1]}
        names = distinct_names(codes, spell, reserved)

        assert list(names) == codes
        assert len({*names.values(), *reserved}) == len(names) + len(reserved)
        assert all(re.fullmatch(form, name) for name in names.values())


def test_a_taken_name_gets_a_number() -> None:
    codes = ["A_B_COM_X", "a-b.com/X", "a.b.com/X", "Y_2", "Y"]

    assert list(distinct_names(codes, constant_name, {"Y"}).values()) == [
        "A_B_COM_X",
        "A_B_COM_X_2",
        "A_B_COM_X_3",
        "Y_2",
        "Y_3",
    ]
