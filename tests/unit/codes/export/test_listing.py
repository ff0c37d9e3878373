import json

from demur.codes.export.listing import render_json
from demur.codes.registry import Registry


def test_the_listing_holds_complete_entries_and_all_phrases(mixed: Registry) -> None:
    content = json.loads(render_json(mixed))

    assert content["registry"] == f"{Registry.load().label}+acme.com@1.0.0"
    assert content["codes"] == [json.loads(json.dumps(entry.as_json())) for entry in mixed]
    assert content["phrases"] == dict(mixed.phrases)


def test_an_organisations_entry_is_filled_in_from_its_parent(mixed: Registry) -> None:
    by_code = {entry["code"]: entry for entry in json.loads(render_json(mixed))["codes"]}

    assert by_code["acme.com/KYC_EXPIRED"]["advice"] == by_code["CONTEXT_MISSING"]["advice"]
