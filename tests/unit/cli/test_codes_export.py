from collections.abc import Callable
from pathlib import Path

import pytest

from demur.cli.main import main
from demur.codes.export import EXPORT_FORMATS
from demur.codes.registry import Registry


@pytest.mark.parametrize("form", EXPORT_FORMATS)
def test_each_form_is_printed_as_the_package_gives_it(
    form: str, capsys: pytest.CaptureFixture[str], core: Registry
) -> None:
    assert main(["codes", "export", "--to", form]) == 0
    assert capsys.readouterr().out == EXPORT_FORMATS[form](core)


def test_a_file_gets_the_same_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], core: Registry
) -> None:
    path = tmp_path / "codes.ts"

    assert main(["codes", "export", "--to", "typescript", "--out", str(path)]) == 0
    assert path.read_bytes() == EXPORT_FORMATS["typescript"](core).encode()
    assert capsys.readouterr().out == ""


def test_organisations_codes_are_exported_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], acme_text: Callable[..., str]
) -> None:
    acme, other = tmp_path / "acme.json", tmp_path / "other.json"
    acme.write_text(acme_text({"code": "acme.com/KYC_EXPIRED"}))
    other.write_text(acme_text({"code": "other.org/LATE"}, domain="other.org"))
    words = ["--registry", str(acme), "--registry", str(other)]

    assert main(["codes", "export", "--to", "go", *words]) == 0
    text = capsys.readouterr().out
    assert 'AcmeComKycExpired Code = "acme.com/KYC_EXPIRED"' in text
    assert 'OtherOrgLate Code = "other.org/LATE"' in text


def test_the_default_registry_is_exported_where_none_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    acme_text: Callable[..., str],
) -> None:
    path = tmp_path / "acme.json"
    path.write_text(acme_text({"code": "acme.com/KYC_EXPIRED"}))
    monkeypatch.setenv("DEMUR_REGISTRY", str(path))

    main(["codes", "export", "--to", "csv"])
    assert "\nacme.com/KYC_EXPIRED," in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "reason"), [("missing/codes.csv", "no such file"), ("nul\0", "null byte")]
)
def test_a_file_that_cannot_be_written_is_an_error(
    name: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["codes", "export", "--to", "csv", "--out", str(tmp_path / name)]) == 1

    error = capsys.readouterr().err
    assert "cannot write: " in error
    assert reason in error


def test_a_form_must_be_named_and_known(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--to", "cobol"]):
        with pytest.raises(SystemExit) as caught:
            main(["codes", "export", *words])
        assert caught.value.code == 2
    assert "cobol" in capsys.readouterr().err
