import shutil
import subprocess
from pathlib import Path

import pytest

from demur.codes.export.typescript import render_typescript
from demur.codes.meaning import VOCABULARIES
from demur.codes.registry import Registry

TSC = shutil.which("tsc")

CONSUMER = """\
import { AnyReasonCode, Codes, REASON_CODES, ReasonCode, RefusalClass } from "./reason_codes";
import { isReasonCode, reasonCodeInfo } from "./reason_codes";

const hard: "HARD_BLOCK" = REASON_CODES.RCE_RISK.refusal_class;
const known: ReasonCode = Codes.ACME_COM_KYC_EXPIRED;
const open: AnyReasonCode = "elsewhere.org/THEIRS";
const sure: RefusalClass | null = reasonCodeInfo(known).refusal_class;
const maybe: string | undefined = reasonCodeInfo(open)?.title;
const text: string = "RCE_RISK";
if (isReasonCode(text)) { const code: ReasonCode = text; }

// @ts-expect-error an unknown code is no ReasonCode
const wrong: ReasonCode = "RCE_RISC";
// @ts-expect-error what an open code means may be unknown
const unsure: string = reasonCodeInfo(open).title;
// @ts-expect-error the constants do not change
REASON_CODES.RCE_RISK.decided = false;
"""


@pytest.mark.skipif(TSC is None, reason="no TypeScript compiler at hand")
def test_strict_typescript_compiles_it_and_its_types_bite(tmp_path: Path, mixed: Registry) -> None:
    (tmp_path / "reason_codes.ts").write_text(render_typescript(mixed), encoding="utf-8")
    (tmp_path / "consumer.ts").write_text(CONSUMER, encoding="utf-8")

    done = subprocess.run(
        [str(TSC), "--noEmit", "--strict", "consumer.ts"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_each_code_carries_what_a_program_branches_on(core: Registry) -> None:
    assert (
        '  RCE_RISK: { title: "Remote code execution", refusal_class: "HARD_BLOCK", '
        'advice: "do_not_retry", retry_scope: "rule", severity: "critical", '
        "decided: true, deprecated: false },\n"
    ) in render_typescript(core)


def test_a_code_with_a_domain_is_a_quoted_key_and_has_an_identifier(mixed: Registry) -> None:
    text = render_typescript(mixed)

    assert '  "acme.com/KYC_EXPIRED": { title: ' in text
    assert '  ACME_COM_KYC_EXPIRED: "acme.com/KYC_EXPIRED",\n' in text


def test_every_closed_vocabulary_is_a_union(core: Registry) -> None:
    text = render_typescript(core)

    for vocabulary in VOCABULARIES:
        members = "".join(f'\n  | "{word}"' for word in vocabulary.words)
        assert f"export type {vocabulary.words.__name__} ={members};" in text


def test_a_deprecated_code_is_marked_so_that_editors_strike_it_out(core: Registry) -> None:
    assert "   * @deprecated Use CHARGEBACK_RISK_BLOCK instead.\n   */\n  OLD_FRAUD" in (
        render_typescript(core)
    )


def test_no_description_ends_its_comment(mixed: Registry) -> None:
    comments = [line for line in render_typescript(mixed).splitlines() if line.startswith("  /** ")]

    assert comments
    assert all(line.count("*/") == 1 and line.endswith(" */") for line in comments)
