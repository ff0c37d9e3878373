from importlib import import_module
from typing import Any

import pytest
from made_secrets import MADE

from demur.guards.secrets.formats import FORMATS, MAX_ANCHOR_LENGTH, SecretFormat

PARSER: Any = import_module("re._parser")


@pytest.mark.parametrize("wanted", FORMATS, ids=lambda wanted: wanted.anchor)
def test_no_form_is_wider_than_declared(wanted: SecretFormat) -> None:
    parsed = PARSER.parse(wanted.pattern.pattern)

    assert parsed.getwidth()[1] <= wanted.width


@pytest.mark.parametrize("wanted", FORMATS, ids=lambda wanted: wanted.anchor)
def test_what_stands_before_an_anchor_is_within_reach(wanted: SecretFormat) -> None:
    lead = wanted.lead.pattern if wanted.lead else ""

    assert PARSER.parse(lead).getwidth()[1] <= 26
    assert len(wanted.anchor) <= MAX_ANCHOR_LENGTH


def test_every_kind_that_is_made_for_tests_is_a_format() -> None:
    kinds = {wanted.kind for wanted in FORMATS}

    assert set(MADE) - {"private key"} <= kinds
