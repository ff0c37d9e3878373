import json
from pathlib import Path
from typing import Any

import pytest
from providers_page import generated_files, providers_page

from demur.codes.markup import markdown_code
from demur.providers.signals import (
    ANY_VALUE,
    ProviderSystem,
    SignalOutcome,
    list_systems,
    load_system,
    read_system,
)

ROOT = Path(__file__).parents[3]
FIELD: dict[str, Any] = {
    "id": "reason",
    "path": "choices[].reason",
    "source": "toy.chat",
    "meaning": "Why it stopped; `null` is normal, see RCE_RISK.",
    "trap": "It `lies`.",
    "unknown": "policy_looking",
    "evidence": ["S"],
    "values": [
        {"value": "x|y", "outcome": "refusal", "code": "RCE_RISK", "class": "HARD_BLOCK"},
        {"value": "z", "outcome": "refusal", "code": "RCE_RISK", "class": "HARD_BLOCK"},
        {
            "value": "broke",
            "outcome": "not_judged",
            "code": "GUARDRAIL_UNAVAILABLE",
            "class": "WORKFLOW_BLOCK",
            "meaning": "a *guard* `broke`",
        },
        {"value": "seen", "outcome": "detect_only"},
        {
            "value": "seen_pii",
            "outcome": "detect_only",
            "code": "PII_DETECTED",
            "class": "SOFT_BLOCK",
        },
        {"value": "stop", "outcome": "not_a_refusal"},
        {"value": "", "outcome": "not_a_refusal"},
    ],
}


def toy(**changed: Any) -> ProviderSystem:
    document = {
        "schema_version": "provider_signals.v1",
        "system": "toy",
        "title": "Toy",
        "kind": "model",
        "packages": {"toy": "1.2"},
        "notes": ["Read `this` first."],
        "signals": [{**FIELD, **changed}],
    }
    return read_system("toy.json", json.dumps(document).encode())


def cells(page: str) -> list[list[str]]:
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def test_values_that_mean_the_same_share_a_row() -> None:
    rows = [row[1:] for row in cells(providers_page([toy()]))]

    rce = "[`RCE_RISK`](codes/RCE_RISK.md)"
    pii = "detected: [`PII_DETECTED`](codes/PII_DETECTED.md)"
    broke = "[`GUARDRAIL_UNAVAILABLE`](codes/GUARDRAIL_UNAVAILABLE.md)"
    other = "[`FILTERED_UNSPECIFIED`](codes/FILTERED_UNSPECIFIED.md)"
    assert rows == [
        ["`x\\|y`, `z`", rce, "`HARD_BLOCK`", "yes", ""],
        ["`broke`", broke, "`WORKFLOW_BLOCK`", "no", r"a \*guard\* `broke`"],
        ["`seen`", "detected", "", "", ""],
        ["`seen_pii`", pii, "", "", ""],
        ["`stop`, (empty)", "not a refusal", "", "", ""],
        [
            *("anything else", other, "`SOFT_BLOCK`", "yes"),
            "if it reads like a policy; otherwise it is no refusal",
        ],
    ]


@pytest.mark.parametrize(
    ("unknown", "shown"),
    [("filtered", "FILTERED_UNSPECIFIED"), ("not_a_refusal", "not a refusal")],
)
def test_the_last_row_says_what_becomes_of_an_unlisted_value(unknown: str, shown: str) -> None:
    assert shown in cells(providers_page([toy(unknown=unknown)]))[-1][2]


def test_where_any_value_is_listed_nothing_is_unlisted() -> None:
    page = providers_page([toy(values=[{**FIELD["values"][0], "value": ANY_VALUE}])])

    assert [row[1] for row in cells(page)] == ["any value"]


def test_a_signal_is_described_with_its_trap_and_its_codes_are_links() -> None:
    page = providers_page([toy()])

    assert (
        "- `choices[].reason` (toy.chat): Why it stopped; `null` is normal, see "
        "[`RCE_RISK`](codes/RCE_RISK.md). *Trap:* It `lies`."
    ) in page
    assert "Read `this` first." in page
    assert "Read from toy 1.2." in page
    assert "1 systems, 1 signals, 7 known values." in page


def test_a_signal_without_trap_and_packages_says_neither() -> None:
    bare = read_system(
        "toy.json",
        json.dumps(
            {
                "schema_version": "provider_signals.v1",
                "system": "toy",
                "title": "Toy",
                "kind": "framework",
                "signals": [{**FIELD, "trap": ""}],
            }
        ).encode(),
    )
    page = providers_page([bare])

    assert "Trap" not in page
    assert "Read from" not in page


def test_the_page_lists_every_native_value_of_every_system() -> None:
    [(path, page)] = generated_files()

    assert path == "docs/reference/providers.md"
    for name in list_systems():
        mapping = load_system(name)
        for field in mapping.signals:
            assert f"- {markdown_code(field.path)}" in page
            for value in field.values:
                if value.value.strip() and value.value != ANY_VALUE:
                    assert markdown_code(value.value).replace("|", "\\|") in page


def test_every_code_on_the_page_has_a_page_of_its_own() -> None:
    refusals = {
        value.code
        for name in list_systems()
        for field in load_system(name).signals
        for value in field.values
        if value.outcome in {SignalOutcome.REFUSAL, SignalOutcome.NOT_JUDGED}
    }

    assert refusals
    for name in refusals:
        assert (ROOT / f"docs/reference/codes/{name}.md").is_file()
