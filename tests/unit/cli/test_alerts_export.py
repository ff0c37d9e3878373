import json
from pathlib import Path

import pytest
import yaml
from commandline import demur

from demur.cli.alerts_export import EXPORT_FORMATS


@pytest.mark.parametrize("form", EXPORT_FORMATS)
def test_each_form_is_written_and_printed_alike(form: str, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    ran = demur("alerts", "export", "--to", form, "--out", out)
    printed = demur("alerts", "export", "--to", form)

    assert ran.status == printed.status == 0
    first, *_ = EXPORT_FORMATS[form]
    assert (out / first.name).read_text(encoding="utf-8") == printed.out
    assert {path.name for path in out.iterdir()} == {one.name for one in EXPORT_FORMATS[form]}
    assert ran.out == "".join(f"wrote {out / one.name}\n" for one in EXPORT_FORMATS[form])


def test_what_is_written_can_be_read_by_machines() -> None:
    assert yaml.safe_load(demur("alerts", "export", "--to", "prometheus").out)["groups"]
    assert json.loads(demur("alerts", "export", "--to", "grafana").out)["panels"]
    assert json.loads(demur("alerts", "export", "--to", "datadog").out)[0]["query"]


def test_json_holds_the_files_or_their_names(tmp_path: Path) -> None:
    files = json.loads(demur("alerts", "export", "--to", "datadog", "--json").out)
    named = json.loads(
        demur("alerts", "export", "--to", "datadog", "--json", "--out", tmp_path).out
    )

    assert set(files) == {"demur-monitors.json", "openmetrics.yaml"}
    assert named == {"written": [str(tmp_path / name) for name in files]}


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    for out in (tmp_path / "file" / "x", tmp_path / "a\0b"):
        ran = demur("alerts", "export", "--to", "grafana", "--out", out)
        assert ran.status == 1
        assert "cannot create the folder" in ran.err
