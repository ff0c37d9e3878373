"""Decision records as Parquet columns: the schema, and how a row of the store becomes one of it.

`PARQUET_COLUMNS` is the only description of the schema `decision_parquet.v1`. It holds no inputs:
of the sealed part only the subject, and the surface, code and action of findings.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Literal, NamedTuple

import msgspec

from demur.codes.vocabulary import DecisionOutput, Verdict
from demur.engines import import_package
from demur.model.decision import Outcome
from demur.model.finding import Action
from demur.store.backend import StorageError
from demur.store.rows import LinkedRow

PARQUET_VERSION = "decision_parquet.v1"
_Kind = Literal["text", "texts", "time", "number", "place", "flag", "findings"]


class ParquetColumn(NamedTuple):
    """A column: its name, its kind of values, and whether it may be null."""

    name: str
    kind: _Kind
    nullable: bool = False


PARQUET_COLUMNS = (
    ParquetColumn("decision_id", "text"),
    ParquetColumn("created_at", "time"),
    ParquetColumn("tenant", "text"),
    ParquetColumn("request_id", "text", nullable=True),
    ParquetColumn("root_id", "text", nullable=True),
    ParquetColumn("subject", "text", nullable=True),
    ParquetColumn("verdict", "text"),
    ParquetColumn("decision_output", "text"),
    ParquetColumn("refusal_class", "text", nullable=True),
    ParquetColumn("outcome", "text"),
    ParquetColumn("action_type", "text"),
    ParquetColumn("amount_value", "number", nullable=True),
    ParquetColumn("amount_currency", "text", nullable=True),
    ParquetColumn("reason_codes", "texts"),
    ParquetColumn("leading_code", "text", nullable=True),
    ParquetColumn("matched_rules", "texts"),
    ParquetColumn("findings", "findings", nullable=True),
    ParquetColumn("policy_id", "text"),
    ParquetColumn("policy_version", "text"),
    ParquetColumn("policy_digest", "text"),
    ParquetColumn("registry_digest", "text"),
    ParquetColumn("engine_version", "text"),
    ParquetColumn("basis", "text"),
    ParquetColumn("enforced", "flag"),
    ParquetColumn("confirmed", "flag"),
    ParquetColumn("seq", "place"),
    ParquetColumn("record_hash", "text"),
)
FINDING_FIELDS = ("surface", "code", "action")


def parquet_schema() -> Any:
    """Return the Arrow schema of every exported file.

    Raises:
        MissingExtraError: Arrow is not installed.
    """
    pa = import_package("pyarrow")
    element = pa.field("element", pa.string(), nullable=False)
    finding = pa.struct([pa.field(name, pa.string(), nullable=False) for name in FINDING_FIELDS])
    types = {
        "text": pa.string(),
        "texts": pa.list_(element),
        "time": pa.timestamp("ms", "UTC"),
        "number": pa.float64(),
        "place": pa.int64(),
        "flag": pa.bool_(),
        "findings": pa.list_(pa.field("element", finding, nullable=False)),
    }
    fields = [pa.field(one.name, types[one.kind], one.nullable) for one in PARQUET_COLUMNS]
    return pa.schema(fields, metadata={"demur.schema_version": PARQUET_VERSION})


class _Policy(msgspec.Struct, frozen=True):
    policy_id: str
    policy_version: str


class _Engine(msgspec.Struct, frozen=True):
    engine_version: str


class _Rule(msgspec.Struct, frozen=True):
    rule_id: str


class _OpenFields(msgspec.Struct, frozen=True):
    """The fields of the open part that have no column in the store."""

    policy: _Policy
    determinism: _Engine
    basis: str = "request"
    enforced: bool = True
    leading_code: str | None = None
    matched_rules: tuple[_Rule, ...] = ()


class _SealedFinding(msgspec.Struct, frozen=True):
    code: str
    surface: str = ""
    action: str = Action.BLOCK.value


class _SealedFields(msgspec.Struct, frozen=True):
    findings: tuple[_SealedFinding, ...] = ()


_decode_open = msgspec.json.Decoder(_OpenFields).decode
_decode_sealed = msgspec.json.Decoder(_SealedFields).decode
_OUTCOMES = {
    (verdict.value, output.value): Outcome.from_output(verdict, output).value
    for verdict in Verdict
    for output in DecisionOutput
}


def build_batch(rows: Sequence[LinkedRow], schema: Any) -> Any:
    """Return an Arrow batch of the rows.

    Raises:
        StorageError: A row holds no decision record.
    """
    pa = import_package("pyarrow")
    # A tuple for each row, so that a name is never far from its value.
    values = list(zip(*map(_read_values, rows), strict=True))
    times = schema.get_field_index("created_at")
    try:
        arrays = [
            pa.array(column, pa.string() if number == times else schema.field(number).type)
            for number, column in enumerate(values)
        ]
        arrays[times] = arrays[times].cast(schema.field(times).type)
    except pa.ArrowException as error:
        place = f"{rows[0].row.tenant}, from record {rows[0].seq}"
        raise StorageError(f"not decision records: {error}", where=place) from error
    return pa.record_batch(arrays, schema=schema)


def _read_values(linked: LinkedRow) -> tuple[Any, ...]:
    """Return the values of a row, in the order of the columns."""
    row = linked.row
    try:
        opened = _decode_open(row.record)
        sealed = None if row.sealed is None else _decode_sealed(row.sealed)
        outcome = _OUTCOMES[row.verdict, row.decision_output]
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError) as error:
        raise StorageError(f"not a decision record: {error}", where=row.decision_id) from error
    findings = None if sealed is None else [msgspec.to_builtins(one) for one in sealed.findings]
    return (
        row.decision_id,
        row.created_at,
        row.tenant,
        row.request_id,
        row.root_id,
        row.subject,
        row.verdict,
        row.decision_output,
        row.refusal_class,
        outcome,
        row.action_type,
        row.amount_value,
        row.amount_currency,
        row.reason_codes,
        opened.leading_code,
        [rule.rule_id for rule in opened.matched_rules],
        findings,
        opened.policy.policy_id,
        opened.policy.policy_version,
        row.policy_digest,
        row.registry_digest,
        opened.determinism.engine_version,
        opened.basis,
        opened.enforced,
        linked.confirmed,
        linked.seq,
        linked.hash,
    )


# A value that few rows differ in costs little this way; ids and hashes differ in each row.
_DISTINCT = ("decision_id", "request_id", "root_id", "record_hash", "seq", "amount_value")


def encode_parquet(batches: Sequence[Any], schema: Any) -> Any:
    """Return a buffer with a Parquet file of the batches, which are of this schema."""
    pa = import_package("pyarrow")
    parquet = import_module("pyarrow.parquet")
    sink = pa.BufferOutputStream()
    repeated = [
        one.name if one.kind not in {"texts", "findings"} else f"{one.name}.list.element"
        for one in PARQUET_COLUMNS
        if one.name not in _DISTINCT and one.kind != "findings"
    ]
    repeated += [f"findings.list.element.{name}" for name in FINDING_FIELDS]
    table = pa.Table.from_batches(batches, schema)
    parquet.write_table(table, sink, compression="zstd", use_dictionary=repeated)
    return sink.getvalue()
