import json
import re
from pathlib import Path
from typing import Any

import pytest
from provider_drift import discoveries, drifts, main, report, versions
from sdk_values import Sources

from demur.providers.signals import ProviderSystem, list_systems, load_system, read_system

ROOT = Path(__file__).parents[3]


def toy(*places: str, **changed: Any) -> ProviderSystem:
    field = {
        "id": "reason",
        "path": "reason",
        "source": "toy",
        "meaning": "Why it stopped.",
        "unknown": "policy_looking",
        "evidence": ["S"],
        "values": [
            {"value": "stop", "outcome": "not_a_refusal"},
            {
                "value": "content_filter",
                "outcome": "refusal",
                "code": "FILTERED_UNSPECIFIED",
                "class": "SOFT_BLOCK",
            },
        ],
        "sdk": [{"package": "toy-sdk", "at": place} for place in places],
        **changed,
    }
    document = {
        "schema_version": "provider_signals.v1",
        "system": "toy",
        "title": "Toy",
        "kind": "model",
        "packages": {"toy-sdk": "1.0"},
        "signals": [field],
    }
    return read_system("toy.json", json.dumps(document).encode())


def install(folder: Path, values: str, name: str = "Toy_SDK") -> Sources:
    (folder / "toy").mkdir(exist_ok=True)
    (folder / "toy/types.py").write_text(f"Reason = Literal[{values}]\n", encoding="utf-8")
    info = folder / "toy_sdk-2.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.0\n")
    return Sources(folder)


def test_a_value_that_is_mapped_is_no_drift_however_it_is_spelled(tmp_path: Path) -> None:
    sources = install(tmp_path, '"stop", "Content-Filter"')

    assert list(drifts([toy("toy.types:Reason")], sources)) == []


def test_a_new_value_is_reported_with_the_row_to_add(tmp_path: Path) -> None:
    sources = install(tmp_path, '"stop", "safety_block", "pause"')

    [drift] = drifts([toy("toy.types:Reason")], sources)
    assert report(drift, "2.0") == (
        "src/demur/providers/data/toy.json: signal `reason`: 2 values are not mapped"
        " (toy-sdk 2.0, toy.types:Reason)\n"
        '  add: {"value": "pause", "outcome": "not_a_refusal"}\n'
        '  add: {"value": "safety_block", "outcome": "refusal",'
        ' "code": "FILTERED_UNSPECIFIED", "class": "SOFT_BLOCK"}'
    )


def test_one_value_is_one_value(tmp_path: Path) -> None:
    [drift] = drifts([toy("toy.types:Reason")], install(tmp_path, '"pause"'))

    assert "1 value is not mapped" in report(drift, "2.0")


def test_a_place_that_moved_is_reported(tmp_path: Path) -> None:
    [drift] = drifts([toy("toy.gone:Reason")], install(tmp_path, '"stop"'))

    assert report(drift, "2.0") == (
        "src/demur/providers/data/toy.json: signal `reason`: there is no module `toy.gone`\n"
        "  help: toy-sdk 2.0, toy.gone:Reason has moved; correct `sdk`"
    )


def test_versions_go_by_the_normalised_name(tmp_path: Path) -> None:
    install(tmp_path, '"stop"')

    assert versions(tmp_path) == {"toy-sdk": "2.0"}


def test_an_unwatched_place_counts_if_it_has_what_no_mapping_has(tmp_path: Path) -> None:
    install(tmp_path, '"stop", "content_filter", "tired"')

    assert list(discoveries([toy("toy.types:Other")], tmp_path)) == [
        "toy.types:Reason declares content_filter, and beside it what no mapping has: tired"
    ]
    assert list(discoveries([toy("toy.types:Reason")], tmp_path)) == []


def test_an_unwatched_place_of_known_words_is_passed_over(tmp_path: Path) -> None:
    install(tmp_path, '"STOP", "content_filter"')

    assert list(discoveries([toy()], tmp_path)) == []


def test_without_sdks_there_is_nothing_to_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert "make drift" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "status", "count"),
    [('"COMPLETE"', 0, "0 values"), ('"COMPLETE", "ERROR_BORED"', 1, "1 values")],
)
def test_the_status_says_whether_something_is_to_do(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    values: str,
    status: int,
    count: str,
) -> None:
    # The real mapping of a small system, against an SDK made up for it.
    for field in load_system("cohere").signals:
        for sdk in field.sdk:
            module, _, name = sdk.at.partition(":")
            path = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            text = values if name == "FinishReason" else '"COMPLETE"'
            path.write_text(f"{name} = Literal[{text}]\n", encoding="utf-8")
    install(tmp_path, '"ERROR_TOXIC", "ERROR_ODD"', name="cohere")

    assert main([str(tmp_path), "--system", "cohere", "--discover"]) == status
    out = capsys.readouterr().out
    assert count in out
    assert "is 2.0 now" in out
    assert "unwatched: toy.types:Reason declares ERROR_TOXIC" in out


def test_every_package_that_a_mapping_names_for_its_values_is_installed_by_make() -> None:
    listed = (ROOT / "requirements/drift.in").read_text(encoding="utf-8")
    packages = set(re.findall(r"^[a-z0-9-]+$", listed, re.MULTILINE))
    named = {
        sdk.package
        for name in list_systems()
        for field in load_system(name).signals
        for sdk in field.sdk
    }

    assert named
    assert named <= packages
