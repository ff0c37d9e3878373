import json

import pytest

from demur.codes.document import read_document
from demur.codes.entry import Entry
from demur.codes.registry import CORE_PATH, Registry
from demur.codes.vocabulary import Effect

CORE = Registry.load()


def test_the_local_name_drops_the_domain(core: Registry) -> None:
    entry = core["RCE_RISK"]._replace(code="acme.com/RCE_RISK")

    assert entry.local_name == "RCE_RISK"


def test_entries_written_as_json_are_the_registry_file_again(core: Registry) -> None:
    file = json.loads(CORE_PATH.read_text("utf-8"))

    written = [entry.as_json() for entry in core]
    assert json.loads(json.dumps(written)) == written == file["codes"]
    assert [list(row) for row in written] == [list(row) for row in file["codes"]]


def test_entries_written_as_json_read_back_as_the_same_registry(core: Registry) -> None:
    file = {
        **json.loads(CORE_PATH.read_text("utf-8")),
        "codes": [entry.as_json() for entry in core],
    }
    again = Registry(read_document("again.json", json.dumps(file)))

    assert list(again) == list(core)


@pytest.mark.parametrize("entry", CORE, ids=lambda entry: str(entry.code))
def test_every_core_entry_is_complete(entry: Entry) -> None:
    assert entry.title
    assert entry.title[0].isupper()
    assert entry.description.endswith(".")
    assert entry.surfaces
    assert 200 <= entry.http <= 599
    refuses = entry.effect is Effect.REFUSE
    assert (entry.refusal_class is not None) is refuses
    assert (entry.advice is not None) is refuses
    assert (entry.retry_scope is not None) is refuses
    assert not set(entry.examples.refuse) & set(entry.examples.allow)


@pytest.mark.parametrize(
    ("description", "summary"),
    [
        ("It is too late. Come back later.", "It is too late."),
        ("It is too late.", "It is too late."),
        ("Version 1.0 is too old", "Version 1.0 is too old"),
    ],
)
def test_the_summary_is_the_first_sentence(description: str, summary: str) -> None:
    assert CORE["RCE_RISK"]._replace(description=description).summary == summary
