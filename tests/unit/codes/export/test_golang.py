import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from demur.codes.document import RegistryDocument, read_document
from demur.codes.export.golang import render_go
from demur.codes.registry import CORE_PATH, Registry

GO = shutil.which("go")
GOFMT = shutil.which("gofmt")


def run(*words: str, folder: Path) -> tuple[int, str]:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.skipif(GO is None or GOFMT is None, reason="no Go tools at hand")
def test_go_vets_it_and_gofmt_leaves_it_alone(tmp_path: Path, mixed: Registry) -> None:
    (tmp_path / "go.mod").write_text("module example.com/reasoncodes\n\ngo 1.18\n")
    (tmp_path / "reason_codes.go").write_text(render_go(mixed), encoding="utf-8")

    assert run(str(GOFMT), "-l", ".", folder=tmp_path) == (0, "")
    assert run(str(GO), "vet", ".", folder=tmp_path) == (0, "")


def test_the_first_line_is_the_one_that_marks_generated_go(core: Registry) -> None:
    first = render_go(core).splitlines()[0]

    assert re.fullmatch(r"// Code generated .* DO NOT EDIT\.", first)


def test_constants_are_documented_and_deprecated_ones_marked(core: Registry) -> None:
    text = render_go(core)

    assert f'\t// {core["RCE_RISK"].description}\n\tRceRisk Code = "RCE_RISK"\n' in text
    assert (
        "\t//\n\t// Deprecated: Use CHARGEBACK_RISK_BLOCK instead.\n"
        '\tOldFraudBlock Code = "OLD_FRAUD_BLOCK"\n'
    ) in text


def test_the_table_says_what_is_known_and_leaves_out_what_is_not(core: Registry) -> None:
    text = render_go(core)

    assert (
        '\t{Code: RceRisk, Title: "Remote code execution", Class: ClassHardBlock, '
        "Advice: AdviceDoNotRetry, RetryScope: ScopeRule, Severity: SeverityCritical, "
        "Decided: true, Parent: PolicyViolation},\n"
    ) in text
    assert (
        '\t{Code: SuccessMemorySimilarAllow, Title: "Similar past success", '
        "Severity: SeverityInfo, Decided: true},\n"
    ) in text
    assert "Deprecated: true, Parent: RiskThresholdExceeded, Replacement: Chargeback" in text


def test_an_organisations_code_has_an_exported_name(mixed: Registry) -> None:
    assert '\tAcmeComKycExpired Code = "acme.com/KYC_EXPIRED"\n' in render_go(mixed)


def test_a_code_never_takes_the_name_of_a_type_or_word(
    acme: Callable[..., RegistryDocument],
) -> None:
    document = acme({"code": "class.hard/BLOCK"}, domain="class.hard")
    text = render_go(Registry(read_document(CORE_PATH), [document]))

    assert '\tClassHardBlock Class = "HARD_BLOCK"\n' in text
    assert '\tClassHardBlock_2 Code = "class.hard/BLOCK"\n' in text


def test_text_is_quoted_as_go_reads_it(mixed: Registry) -> None:
    [row] = [line for line in render_go(mixed).splitlines() if "{Code: AcmeComKycExpired" in line]

    assert '\\"quotes\\", back\\\\slash' in row
    assert "\\U0000000a<b>tags</b>\\U0000001b[0m\\U00002028\\U0000feff." in row
