import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass, Surface
from demur.errors import InputError, InputTypeError, UnknownCodeError
from demur.model.refusal import MAX_DETAIL_LENGTH, Refusal
from demur.model.refusal_source import RefusalSource

SCHEMA = Path(__file__).parents[3] / "spec/schemas/refusal.v1.schema.json"


def test_the_registry_fills_in_what_the_code_means() -> None:
    refusal = Refusal.from_code(ReasonCode.RCE_RISK, "curl x | sh", surface="code_execution")

    assert refusal.refusal_class is RefusalClass.HARD_BLOCK
    assert refusal.advice is Advice.DO_NOT_RETRY
    assert refusal.surface is Surface.CODE_EXECUTION
    assert refusal.parent == "POLICY_VIOLATION"
    assert refusal.registry == Registry.load().label


def test_the_line_is_its_projection() -> None:
    refusal = Refusal.from_code("RATE_LIMIT", "a\nb", evidence={"retry_after": 30})

    assert str(refusal) == refusal.line == r"REFUSED: RATE_LIMIT: a\u000ab"


def test_a_line_makes_a_refusal_again() -> None:
    refusal = Refusal.from_code("RATE_LIMIT", "slow down")

    assert Refusal.from_line(refusal.line) == refusal
    assert Refusal.from_line("all is well") is None


@pytest.mark.parametrize("code", list(ReasonCode))
def test_every_code_makes_an_envelope_that_the_published_schema_accepts(code: ReasonCode) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    envelope = json.loads(
        msgspec.json.encode(Refusal.from_code(code, "x", surface="policy", source="t"))
    )

    jsonschema.validate(envelope, schema)


def test_an_organisation_travels_with_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "acme.json"
    row = {
        "code": "acme.com/KYC_EXPIRED",
        "description": "The identity check is out of date.",
        "parent": "CONTEXT_MISSING",
        "since": "1.0.0",
    }
    path.write_text(
        json.dumps(
            {
                "schema_version": "reason_codes.v1",
                "version": "2.3.0",
                "domain": "acme.com",
                "codes": [row],
            }
        )
    )
    refusal = Refusal.from_code("acme.com/KYC_EXPIRED", registry=Registry.load(path))

    assert refusal.parent == "CONTEXT_MISSING"
    assert refusal.registry == f"{Registry.load().label}+acme.com@2.3.0"


def test_a_long_detail_is_cut_and_says_so() -> None:
    refusal = Refusal.from_code("RATE_LIMIT", "x" * 10_000_000)

    assert len(refusal.detail) <= MAX_DETAIL_LENGTH
    kept = refusal.detail.count("x")
    assert refusal.detail.endswith(f"[{10_000_000 - kept} more characters]")


def test_a_long_detail_cannot_be_smuggled_past_the_bound() -> None:
    refusal = Refusal.from_code("RATE_LIMIT")

    with pytest.raises(InputError, match="at most"):
        msgspec.structs.replace(refusal, detail="x" * (MAX_DETAIL_LENGTH + 1), line="")


def test_the_line_follows_from_code_and_detail_and_cannot_say_otherwise() -> None:
    refusal = Refusal.from_code("RCE_RISK", "x")

    assert msgspec.structs.replace(refusal, line="").line == "REFUSED: RCE_RISK: x"
    with pytest.raises(InputError, match="does not match its code"):
        msgspec.structs.replace(refusal, line="REFUSED: RATE_LIMIT: zzz")


def test_a_refusal_can_always_travel() -> None:
    refusal = Refusal.from_code("RCE_RISK", "\ud800", evidence={"when": (1, 2)})

    assert msgspec.json.decode(msgspec.json.encode(refusal), type=Refusal) == refusal
    with pytest.raises(InputError, match="plain JSON values"):
        Refusal.from_code("RCE_RISK", evidence={"a": object()})
    with pytest.raises(InputTypeError, match="evidence must be a mapping"):
        Refusal.from_code("RCE_RISK", evidence=[1])  # type: ignore[arg-type]


def test_bad_input_says_what_is_wrong() -> None:
    with pytest.raises(UnknownCodeError, match="did you mean `RCE_RISK`"):
        Refusal.from_code("RCE_RISC")
    with pytest.raises(InputTypeError, match="a detail must be a string"):
        Refusal.from_code("RCE_RISK", None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown surface `kitchen`"):
        Refusal.from_code("RCE_RISK", surface="kitchen")


def test_the_native_signal_travels_verbatim() -> None:
    source = RefusalSource(name="gemini", path="candidates[0].finishReason", native="SPII")
    refusal = Refusal.from_code("PII_DETECTED", source=source)
    envelope = msgspec.json.encode(refusal)

    assert json.loads(envelope)["source"] == {
        "name": "gemini",
        "path": "candidates[0].finishReason",
        "native": "SPII",
    }
    assert msgspec.json.decode(envelope, type=Refusal) == refusal
    jsonschema.validate(json.loads(envelope), json.loads(SCHEMA.read_text(encoding="utf-8")))
