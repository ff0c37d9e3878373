"""A registry of core and organisation, whose texts try to break out of every form."""

from collections.abc import Callable

import pytest

from demur.codes.document import RegistryDocument, read_document
from demur.codes.registry import CORE_PATH, Registry

NASTY = (
    'Ends */ a comment, "quotes", back\\slash, `ticks`, | bars,\n<b>tags</b>\x1b[0m\u2028\ufeff.'
)


@pytest.fixture(scope="session")
def nasty() -> str:
    """Return text that would end a comment, a string, a cell or a line."""
    return NASTY


@pytest.fixture(scope="session")
def mixed(acme: Callable[..., RegistryDocument]) -> Registry:
    """Return the core with codes of `acme.com`."""
    document = acme(
        {
            "code": "acme.com/KYC_EXPIRED",
            "parent": "CONTEXT_MISSING",
            "title": NASTY,
            "description": f"{NASTY} See acme.com/KYC_OLD or RCE_RISK.",
            "evidence": {"days": NASTY},
            "xref": {"acme": ["K1"], "owasp_llm": ["LLM01", "LLM99"]},
            "examples": {"refuse": [NASTY, "```"], "allow": []},
            "aliases": ["papers | have run `out`"],
        },
        {
            "code": "acme.com/KYC_OLD",
            "parent": "CONTEXT_MISSING",
            "family": "identity",
            "stability": "deprecated",
            "deprecated": True,
            "deprecated_since": "1.0.0",
            "replacement": "acme.com/KYC_EXPIRED",
        },
        {
            "code": "acme.com/KYC_GONE",
            "parent": "CONTEXT_MISSING",
            "stability": "deprecated",
            "deprecated": True,
            "deprecated_since": "1.0.0",
        },
        phrases={"remote code was stopped": "RCE_RISK"},
    )
    return Registry(read_document(CORE_PATH), [document])
