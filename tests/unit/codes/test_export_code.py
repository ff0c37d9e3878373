import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.document import RegistryDocument, read_document
from demur.codes.entry import is_code
from demur.codes.export_code import (
    camel_name,
    constant_name,
    distinct_names,
    render_go,
    render_typescript,
)
from demur.codes.meaning import VOCABULARIES
from demur.codes.registry import CORE_PATH, Registry

ROOT = Path(__file__).parents[3]
GO = shutil.which("go")
GOFMT = shutil.which("gofmt")


def run(*words: str, folder: Path) -> tuple[int, str]:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.skipif(GO is None or GOFMT is None, reason="no Go tools at hand")
def test_go_vets_it_and_gofmt_leaves_it_alone(tmp_path: Path, mixed: Registry) -> None:
    shutil.copy(ROOT / "clients/go/go.mod", tmp_path)
    shutil.copy(ROOT / "clients/go/reasoncodes/refusal.go", tmp_path)
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


def test_go_compares_phrases_in_the_order_in_which_they_win(mixed: Registry) -> None:
    rows = render_go(mixed).split("var phrases = []phrase{\n")[1].split("}\n\n")[0].splitlines()
    phrases = [row[2:].rpartition(", ")[0].replace("\\", "")[1:-1] for row in rows]

    assert len(phrases) == len(mixed.phrases)
    assert list(map(len, phrases)) == sorted(map(len, phrases), reverse=True)


def test_go_folds_each_character_that_may_stand_in_a_phrase(
    acme: Callable[..., RegistryDocument],
) -> None:
    core = Registry.load()
    german = Registry(
        read_document(CORE_PATH), [acme({"code": "acme.com/WIPE", "aliases": ["Löschen verboten"]})]
    )

    assert '\t"L", "l",\n' in render_go(core)
    assert '\t"ß", "ss",\n' in render_go(core)
    assert '\t"\u212a", "k",\n' in render_go(core)
    assert '\t"Ö", "ö",\n' not in render_go(core)
    assert '\t"Ö", "ö",\n' in render_go(german)


def test_go_names_no_code_like_a_function_of_the_package(
    acme: Callable[..., RegistryDocument],
) -> None:
    source = (ROOT / "clients/go/reasoncodes/refusal.go").read_text(encoding="utf-8")
    names = re.findall(r"(?m)^(?:func |type |\t(?=Err))([A-Z]\w+)", source)
    codes = [re.sub("(?<=[a-z])(?=[A-Z])", "_", name).upper() for name in names]
    document = acme(*({"code": f"x-local/{code}"} for code in codes), domain="x-local")

    assert {"Parse", "Format", "Classify", "Refusal", "ErrInconsistent"} <= set(names)
    text = render_go(Registry(read_document(CORE_PATH), [document]))
    assert not [name for name in names if f"\t{name} Code = " in text]


def test_text_is_quoted_as_go_reads_it(mixed: Registry) -> None:
    [row] = [line for line in render_go(mixed).splitlines() if "{Code: AcmeComKycExpired" in line]

    assert '\\"quotes\\", back\\\\slash' in row
    assert "\\U0000000a<b>tags</b>\\U0000001b[0m\\U00002028\\U0000feff." in row


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
        "decided: true, deprecated: false, "
        'effect: "refuse", stability: "stable", parent: "POLICY_VIOLATION", '
        "replacement: null, obligations: [] },\n"
    ) in render_typescript(core)


def test_typescript_holds_the_legacy_phrases_as_they_are_compared(core: Registry) -> None:
    phrases = render_typescript(core).partition("LEGACY_PHRASES = {\n")[2].partition("}")[0]

    assert phrases.count("\n") == len(core.phrases)
    assert '  "blocked by policy": "POLICY_VIOLATION",\n' in phrases


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


LABEL = "[a-z0-9]([a-z0-9-]{0,3}[a-z0-9])?"
CODES = st.from_regex(
    rf"({LABEL}\.{LABEL}/|x-local/)?[A-Z][A-Z0-9_]{{0,5}}[A-Z0-9]", fullmatch=True
)


@pytest.mark.parametrize(
    ("code", "constant", "camel"),
    [
        ("RCE_RISK", "RCE_RISK", "RceRisk"),
        ("acme.com/KYC_EXPIRED", "ACME_COM_KYC_EXPIRED", "AcmeComKycExpired"),
        ("x-local/TRIAL", "X_LOCAL_TRIAL", "XLocalTrial"),
        ("3m.com/LATE", "_3M_COM_LATE", "X3mComLate"),
        ("A__B2", "A__B2", "AB2"),
    ],
)
def test_names_read_like_the_code(code: str, constant: str, camel: str) -> None:
    assert constant_name(code) == constant
    assert camel_name(code) == camel


@given(st.lists(CODES, unique=True))
def test_no_two_codes_share_a_name_and_no_code_has_a_reserved_one(codes: list[str]) -> None:
    """INVARIANT: no two codes share a name, and no code has a reserved one."""
    assert all(map(is_code, codes))
    for spell, form in ((constant_name, r"[A-Z_][A-Z0-9_]*"), (camel_name, r"[A-Z][A-Za-z0-9_]*")):
        reserved = {spell(code) for code in codes[:1]}
        names = distinct_names(codes, spell, reserved)

        assert list(names) == codes
        assert len({*names.values(), *reserved}) == len(names) + len(reserved)
        assert all(re.fullmatch(form, name) for name in names.values())


def test_a_taken_name_gets_a_number() -> None:
    codes = ["A_B_COM_X", "a-b.com/X", "a.b.com/X", "Y_2", "Y"]

    assert list(distinct_names(codes, constant_name, {"Y"}).values()) == [
        "A_B_COM_X",
        "A_B_COM_X_2",
        "A_B_COM_X_3",
        "Y_2",
        "Y_3",
    ]
