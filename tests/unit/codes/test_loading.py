import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from demur.codes import loading
from demur.codes.document import RegistryDocument
from demur.codes.loading import bundle_registry, default_registry, parse_bundle, registry_or_core
from demur.codes.refusal_line import find_refusals, format_refusal, parse_refusal
from demur.codes.registry import Registry
from demur.errors import RegistryError

TextOf = Callable[..., str]
KYC = "acme.com/KYC_EXPIRED"


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    """Clear the caches, so that no test sees what another installed or broke."""
    loading._load_registry.cache_clear()
    loading._load_or_core.cache_clear()
    yield
    loading._load_registry.cache_clear()
    loading._load_or_core.cache_clear()


@pytest.fixture
def acme_path(tmp_path: Path, acme_text: TextOf) -> Path:
    path = tmp_path / "acme.json"
    row = {"code": KYC, "aliases": ["kyc check lapsed"]}
    path.write_text(acme_text(row, version="2.0.0"), encoding="utf-8")
    return path


@pytest.fixture
def beta_path(tmp_path: Path, acme_text: TextOf) -> Path:
    path = tmp_path / "beta.json"
    path.write_text(acme_text({"code": "beta.com/TOO_LATE"}, domain="beta.com"), encoding="utf-8")
    return path


def install(folder: Path, value: str, code: str = "") -> None:
    """Make a distribution in `folder` whose entry point names `value` in module `acme_codes`."""
    info = folder / "acme_codes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-codes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[demur.registries]\nacme = {value}\n")
    (folder / "acme_codes.py").write_text(code)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder that packages are found in for the length of the test."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("acme_codes", None)


def test_without_additions_the_default_is_the_core(core: Registry) -> None:
    assert list(default_registry(environment={})) == list(core)
    assert list(default_registry(environment={"DEMUR_REGISTRY": os.pathsep})) == list(core)


def test_the_environment_adds_files_separated_as_in_path(acme_path: Path, beta_path: Path) -> None:
    for paths in ([acme_path, beta_path], [beta_path, acme_path]):
        registry = default_registry(
            environment={"DEMUR_REGISTRY": os.pathsep.join(map(str, paths))}
        )

        assert registry.label == f"{Registry.load().label}+acme.com@2.0.0+beta.com@1.0.0"
        assert {KYC, "beta.com/TOO_LATE"} <= {entry.code for entry in registry}


def test_named_files_load_together_with_those_of_the_environment(
    acme_path: Path, beta_path: Path
) -> None:
    registry = default_registry(acme_path, environment={"DEMUR_REGISTRY": str(beta_path)})

    assert list(registry) == list(default_registry(beta_path, str(acme_path), environment={}))
    assert {KYC, "beta.com/TOO_LATE"} <= {entry.code for entry in registry}


def test_the_environment_of_the_process_is_the_one_that_counts(
    acme_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMUR_REGISTRY", str(acme_path))

    line = f"REFUSED: {KYC}: since May"
    assert format_refusal(KYC, "since May") == line
    assert parse_refusal(line) == (KYC, "since May")
    assert parse_refusal("error: KYC check lapsed") == (KYC, "error: KYC check lapsed")
    assert [found.code for found in find_refusals(f"12:00 {line}")] == [KYC]
    assert registry_or_core() is default_registry()


def test_a_registry_is_loaded_once_for_one_setting(acme_path: Path) -> None:
    environment = {"DEMUR_REGISTRY": str(acme_path)}

    assert default_registry(environment=environment) is default_registry(environment=environment)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("acme_codes:PATH", "PATH = {path!r}"),
        ("acme_codes:path", "def path(): return {path!r}"),
        ("acme_codes:path", "import pathlib\ndef path(): return pathlib.Path({path!r})"),
    ],
)
def test_an_installed_package_adds_its_file(
    value: str, code: str, package: Path, acme_path: Path
) -> None:
    install(package, value, code.format(path=str(acme_path)))

    assert KYC in default_registry(environment={})


def test_a_file_that_is_named_and_installed_counts_once(package: Path, acme_path: Path) -> None:
    install(package, "acme_codes:PATH", f"PATH = {str(acme_path)!r}")

    registry = default_registry(environment={"DEMUR_REGISTRY": str(acme_path)})
    assert registry.label == f"{Registry.load().label}+acme.com@2.0.0"


def test_a_real_process_finds_an_installed_package(tmp_path: Path, acme_path: Path) -> None:
    install(tmp_path, "acme_codes:PATH", f"PATH = {str(acme_path)!r}")
    script = (
        f"from demur.codes.refusal_line import format_refusal; print(format_refusal({KYC!r}, 'x'))"
    )

    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"REFUSED: {KYC}: x\n"


@pytest.mark.parametrize(
    ("value", "code", "reason"),
    [
        ("acme_codes:PATH", "1 / 0", "division by zero"),
        ("acme_codes:PATH", "", "has no attribute 'PATH'"),
        ("acme_codes:PATH", "PATH = 7", "int"),
        ("acme_codes:path", "def path(): raise RuntimeError('out of order')", "out of order"),
        ("no_such_module:PATH", "", "No module named 'no_such_module'"),
    ],
)
def test_a_broken_package_is_named(value: str, code: str, reason: str, package: Path) -> None:
    install(package, value, code)

    with pytest.raises(RegistryError) as caught:
        default_registry(environment={})

    assert caught.value.where == f"entry point `acme = {value}`"
    assert caught.value.problem.startswith("the registry of an installed package cannot be loaded")
    assert reason in caught.value.problem
    assert caught.value.help is not None


def test_a_package_whose_file_is_wrong_gets_the_file_s_own_error(
    package: Path, tmp_path: Path
) -> None:
    missing = tmp_path / "none.json"
    install(package, "acme_codes:PATH", f"PATH = {str(missing)!r}")

    with pytest.raises(RegistryError) as caught:
        default_registry(environment={})

    assert caught.value.where == str(missing)


def test_a_broken_registry_is_an_error_where_codes_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMUR_REGISTRY", str(tmp_path / "none.json"))

    for ask in (default_registry, lambda: format_refusal(KYC, "x")):
        with pytest.raises(RegistryError, match="no such file or directory"):
            ask()


def test_a_broken_registry_warns_once_where_lines_are_read_and_the_core_still_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMUR_REGISTRY", str(tmp_path / "none.json"))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert parse_refusal("Too many requests") == ("RATE_LIMIT", "Too many requests")
            assert parse_refusal(f"REFUSED: {KYC}: x") is None
            assert [found.code for found in find_refusals("x REFUSED: RCE_RISK: y")] == ["RCE_RISK"]

    [warning] = caught
    assert warning.category is RuntimeWarning
    assert str(warning.message).startswith("using the core reason codes alone: ")
    assert "none.json" in str(warning.message)
    assert warning.filename == __file__


def test_a_broken_registry_does_not_touch_canonical_lines_of_the_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMUR_REGISTRY", str(tmp_path / "none.json"))

    assert parse_refusal("REFUSED: RCE_RISK: x") == ("RCE_RISK", "x")
    assert parse_refusal("REFUSED: RCE_RISK: x\n") == ("RCE_RISK", "x")
    assert format_refusal("RCE_RISK", "x") == "REFUSED: RCE_RISK: x"


def test_reading_never_fails_where_warnings_are_errors(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    code = "import demur; print(demur.parse_refusal('too many requests').code)"
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "DEMUR_REGISTRY": str(broken)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout == "RATE_LIMIT\n"


def test_a_file_is_read_from_where_the_program_is_and_again_once_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acme_text: Callable[..., str]
) -> None:
    for name, code in (("a", "acme.com/FIRST_CODE"), ("b", "acme.com/OTHER_CODE")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "acme.json").write_text(acme_text({"code": code}), encoding="utf-8")
        monkeypatch.chdir(folder)
        assert code in default_registry("acme.json")
    (tmp_path / "b" / "acme.json").write_text(
        acme_text({"code": "acme.com/A_THIRD_CODE"}), encoding="utf-8"
    )
    assert "acme.com/A_THIRD_CODE" in default_registry("acme.json")


@pytest.fixture
def wider(core: Registry, acme: Callable[..., RegistryDocument]) -> Registry:
    mine = acme(
        {"code": "acme.com/KYC_EXPIRED", "title": "Überfällig"},
        phrases={"kyc is stale": "POLICY_VIOLATION"},
    )
    return Registry(core.documents[0], [mine])


def test_a_registry_comes_back_as_it_was(core: Registry, wider: Registry) -> None:
    for registry in (core, wider):
        text = bundle_registry(registry)
        back = parse_bundle(text)

        assert bundle_registry(back) == text
        assert list(back) == list(registry)
        assert back.label == registry.label


def test_a_bundle_holds_the_codes_an_organisation_added(wider: Registry) -> None:
    back = parse_bundle(bundle_registry(wider))

    assert back["acme.com/KYC_EXPIRED"].title == "Überfällig"
    assert back["acme.com/KYC_EXPIRED"].parent == "POLICY_VIOLATION"


def test_other_registries_have_other_bundles(core: Registry, wider: Registry) -> None:
    assert bundle_registry(core) != bundle_registry(wider)
    assert bundle_registry(core) == bundle_registry(Registry.load())


def changed(core: Registry, change: dict[str, Any]) -> str:
    return json.dumps({**json.loads(bundle_registry(core)), **change})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"schema_version": "v0"}, "unknown schema version"),
        ({"organisations": {}}, "must be a list"),
        ({"more": 1}, "a bundle holds a core and organisations"),
        ({"core": 5}, "registry: core"),
        ({"core": {}}, "registry: core"),
        ({"organisations": [5]}, r"registry: organisations\[0\]"),
        ({"organisations": [None]}, r"registry: organisations\[0\]"),
    ],
)
def test_a_document_that_is_not_a_bundle_is_refused(
    core: Registry, change: dict[str, Any], problem: str
) -> None:
    with pytest.raises(RegistryError, match=problem):
        parse_bundle(changed(core, change))


@pytest.mark.parametrize("text", ["", "5", "[]", "{", "[" * 10**5, '{"core": 1e999}', "9" * 5000])
def test_text_that_is_no_bundle_is_refused(text: str) -> None:
    with pytest.raises(RegistryError) as caught:
        parse_bundle(text, "registry.json")

    assert str(caught.value.where).startswith("registry.json")


def test_a_bundle_is_checked_like_any_registry(core: Registry) -> None:
    content = json.loads(bundle_registry(core))
    content["core"]["codes"][0]["effect"] = "explode"
    with pytest.raises(RegistryError, match="explode"):
        parse_bundle(json.dumps(content))
