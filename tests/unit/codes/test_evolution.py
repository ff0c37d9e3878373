import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from demur.codes.document import RegistryDocument, read_document
from demur.codes.evolution import ChangeLevel, compare_registries
from demur.codes.registry import CORE_PATH

FROZEN = Path(__file__).parents[3] / "spec/registry"
RELEASES = sorted(FROZEN.glob("*.json"))


def core(**fields: Any) -> RegistryDocument:
    raw = {**json.loads(CORE_PATH.read_text(encoding="utf-8")), **fields}
    return read_document("changed.json", json.dumps(raw))


def test_there_is_a_frozen_release() -> None:
    assert "1.0.0.json" in {path.name for path in RELEASES}


@pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.stem)
def test_a_release_is_never_touched(path: Path) -> None:
    sums = (FROZEN / "SHA256SUMS").read_text().splitlines()

    assert f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" in sums
    assert read_document(path).version == path.stem


@pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.stem)
def test_the_present_registry_may_follow_every_release(path: Path) -> None:
    evolution = compare_registries(read_document(path), read_document(CORE_PATH))

    assert evolution.level is not ChangeLevel.REFUSED, evolution.changes
    assert evolution.version_fits, evolution.changes


@pytest.mark.parametrize(
    ("level", "fitting", "short"),
    [
        ({"codes__title": "x"}, "1.0.1", "1.0.0"),
        ({"codes__severity": "critical"}, "1.1.0", "1.0.9"),
        ({"codes__http": 500}, "2.0.0", "1.9.0"),
    ],
)
def test_the_version_must_announce_the_change(
    level: dict[str, Any], fitting: str, short: str
) -> None:
    rows = json.loads(CORE_PATH.read_text(encoding="utf-8"))["codes"]
    [(name, value)] = level.items()
    rows[0] = {**rows[0], name.removeprefix("codes__"): value}

    before = core(version="1.0.0")
    assert compare_registries(before, core(version=fitting, codes=rows)).version_fits
    assert not compare_registries(before, core(version=short, codes=rows)).version_fits


def test_phrases_at_the_top_of_a_file_count_as_aliases() -> None:
    added = core(phrases={"no way, jose": "MODEL_DECLINED"})
    [change] = compare_registries(core(), added).changes

    assert change == (ChangeLevel.MINOR, "MODEL_DECLINED", "aliases: `no way, jose` added")
    [lost] = compare_registries(added, core()).changes
    assert lost.level is ChangeLevel.MAJOR


def test_an_organisation_whose_parent_vanished_can_still_be_compared() -> None:
    def acme(parent: str) -> RegistryDocument:
        row = {"code": "acme.com/X_Y", "description": "d", "parent": parent, "since": "1.0.0"}
        raw = {"schema_version": "reason_codes.v1", "version": "1.0.0", "domain": "acme.com"}
        return read_document("a.json", json.dumps({**raw, "codes": [row]}))

    assert compare_registries(acme("SCOPE_MISSING"), acme("GONE")).level is ChangeLevel.REFUSED
