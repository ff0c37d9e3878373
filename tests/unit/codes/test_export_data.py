import csv
import io
import json
from typing import Any

import jsonschema
import pytest

from demur.codes.export_data import CSV_COLUMNS, render_csv, render_json, render_sarif
from demur.codes.meaning import load_taxonomies
from demur.codes.registry import Registry
from demur.codes.vocabulary import Severity


def test_the_listing_holds_complete_entries_and_all_phrases(mixed: Registry) -> None:
    content = json.loads(render_json(mixed))

    assert content["registry"] == f"{Registry.load().label}+acme.com@1.0.0"
    assert content["codes"] == [json.loads(json.dumps(entry.as_json())) for entry in mixed]
    assert content["phrases"] == dict(mixed.phrases)


def test_an_organisations_entry_is_filled_in_from_its_parent(mixed: Registry) -> None:
    by_code = {entry["code"]: entry for entry in json.loads(render_json(mixed))["codes"]}

    assert by_code["acme.com/KYC_EXPIRED"]["advice"] == by_code["CONTEXT_MISSING"]["advice"]


def rows_of(registry: Registry) -> dict[str, dict[str, str]]:
    return {row["code"]: row for row in csv.DictReader(io.StringIO(render_csv(registry)))}


def test_there_is_one_row_for_each_code(mixed: Registry) -> None:
    assert list(rows_of(mixed)) == [entry.code for entry in mixed]


def test_cells_hold_words_lists_flags_and_nothing_for_null(core: Registry) -> None:
    row = rows_of(core)["SUCCESS_MEMORY_SIMILAR_ALLOW"]

    assert tuple(row) == CSV_COLUMNS
    assert row["refusal_class"] == ""
    assert row["decided"] == "true"
    assert row["http"] == "200"
    assert rows_of(core)["RCE_RISK"]["surfaces"] == "code_execution skill tool_call"


def test_text_with_quotes_and_line_breaks_comes_back_whole(mixed: Registry, nasty: str) -> None:
    assert rows_of(mixed)["acme.com/KYC_EXPIRED"]["title"] == nasty


TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    """Return the schema of an object that has no other properties."""
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


COMPONENT = closed(["name"], name={"type": "string"}, index={"type": "integer", "minimum": 0})
TAXON = closed(
    ["id"],
    id={"type": "string"},
    deprecatedIds={"type": "array", "uniqueItems": True, "items": {"type": "string"}},
    name={"type": "string"},
    shortDescription=TEXT,
    fullDescription=TEXT,
    help=TEXT,
    defaultConfiguration=closed([], level={"enum": ["none", "note", "warning", "error"]}),
    relationships={
        "type": "array",
        "uniqueItems": True,
        "items": closed(
            ["target", "kinds"],
            target=closed(["id", "toolComponent"], id={"type": "string"}, toolComponent=COMPONENT),
            kinds={"type": "array", "items": {"enum": ["superset", "relevant"]}},
        ),
    },
    properties={"type": "object"},
)
# The part of SARIF 2.1.0 that a taxonomy may use.
LOG = closed(
    ["version", "runs"],
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"const": "2.1.0"},
    runs={
        "type": "array",
        "items": closed(
            ["tool"],
            tool=closed(
                ["driver"],
                driver=closed(
                    ["name"],
                    name={"const": "demur"},
                    supportedTaxonomies={"type": "array", "items": COMPONENT},
                ),
            ),
            taxonomies={
                "type": "array",
                "items": closed(
                    ["name"],
                    name={"type": "string"},
                    version={"type": "string"},
                    shortDescription=TEXT,
                    isComprehensive={"type": "boolean"},
                    taxa={"type": "array", "uniqueItems": True, "items": TAXON},
                ),
            },
        ),
    },
)


def run_of(registry: Registry) -> dict[str, Any]:
    [run] = json.loads(render_sarif(registry))["runs"]
    return dict(run)


def taxon_of(registry: Registry, code: str) -> dict[str, Any]:
    [taxon] = [taxon for taxon in run_of(registry)["taxonomies"][0]["taxa"] if taxon["id"] == code]
    return dict(taxon)


def test_the_log_has_the_form_of_sarif(mixed: Registry) -> None:
    jsonschema.validate(json.loads(render_sarif(mixed)), LOG)


def test_the_first_taxonomy_has_one_taxon_for_each_code(mixed: Registry) -> None:
    first = run_of(mixed)["taxonomies"][0]

    assert [taxon["id"] for taxon in first["taxa"]] == [entry.code for entry in mixed]
    assert first["version"] == f"{Registry.load().versions['']}+acme.com@1.0.0"


def test_a_taxon_describes_its_code(core: Registry) -> None:
    entry = core["RCE_RISK"]
    taxon = taxon_of(core, "RCE_RISK")

    assert taxon["name"] == "RceRisk"
    assert taxon["shortDescription"]["text"] == entry.title
    assert taxon["fullDescription"]["text"] == entry.description
    assert taxon["properties"]["refusal_class"] == "HARD_BLOCK"
    assert taxon["properties"]["surfaces"] == ["code_execution", "skill", "tool_call"]


@pytest.mark.parametrize(
    ("code", "severity", "level"),
    [
        ("RCE_RISK", Severity.CRITICAL, "error"),
        ("SECRET_LEAK", Severity.HIGH, "error"),
        ("POLICY_VIOLATION", Severity.MEDIUM, "warning"),
        ("RATE_LIMIT", Severity.LOW, "note"),
        ("SUCCESS_MEMORY_SIMILAR_ALLOW", Severity.INFO, "none"),
    ],
)
def test_the_level_follows_from_the_severity(
    code: str, severity: Severity, level: str, core: Registry
) -> None:
    assert core[code].severity is severity
    assert taxon_of(core, code)["defaultConfiguration"]["level"] == level


def test_a_replacement_carries_the_ids_it_replaces(core: Registry) -> None:
    assert taxon_of(core, "CHARGEBACK_RISK_BLOCK")["deprecatedIds"] == ["OLD_FRAUD_BLOCK"]
    assert "deprecatedIds" not in taxon_of(core, "RCE_RISK")


def test_every_relationship_leads_to_a_taxon_of_the_named_taxonomy(mixed: Registry) -> None:
    known = run_of(mixed)["taxonomies"]
    targets = [
        relationship["target"]
        for taxon in known[0]["taxa"]
        for relationship in taxon.get("relationships", ())
    ]

    assert targets
    for target in targets:
        component = known[target["toolComponent"]["index"]]
        assert component["name"] == target["toolComponent"]["name"]
        assert target["id"] in {taxon["id"] for taxon in component["taxa"]}


def test_a_parent_is_a_superset_and_a_cross_reference_is_relevant(core: Registry) -> None:
    kinds = {
        relationship["target"]["id"]: relationship["kinds"]
        for relationship in taxon_of(core, "RCE_RISK")["relationships"]
    }

    assert kinds == {
        "POLICY_VIOLATION": ["superset"],
        "LLM05": ["relevant"],
        "ASI05": ["relevant"],
        "AML.T0050": ["relevant"],
    }


def test_the_driver_names_the_taxonomies_it_supports_in_order(core: Registry) -> None:
    run = run_of(core)
    supported = run["tool"]["driver"]["supportedTaxonomies"]

    assert [item["name"] for item in supported] == [item["name"] for item in run["taxonomies"]]
    assert [item["index"] for item in supported] == list(range(len(load_taxonomies()) + 1))
