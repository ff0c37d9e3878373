"""Very many decisions in Parquet: made by a vectorised generator, and queried with DuckDB.

The generator writes the schema, the folders and the encoding of `demur export --parquet`, with
random ids and hashes, which do not compress. The queries are those of docs/how-to/query-parquet.md.
The export itself is measured on a store of real decisions.

    python bench/parquet.py --records 100000000 --dir /mnt/large
"""

import argparse
import os
import re
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from demur.audit.parquet_folder import encode_name, export_parquet
from demur.audit.parquet_rows import encode_parquet, parquet_schema
from demur.engines import import_package
from demur.gate.clock import system_clock
from demur.gate.gate import Gate
from demur.store.opening import open_store

pa = import_package("pyarrow")

PAGE = Path(__file__).parents[1] / "docs/how-to/query-parquet.md"
SQL = re.compile(r"^```sql\n-- duckdb\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROUNDS = 3
DAYS, TENANTS = 30, 50
MAX_ROWS = 100_000
DAY_MS = 86_400_000
BASE32 = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", np.uint8)
HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
DIGESTS = [f"sha256:{number:064x}" for number in range(4)]


class Profile(NamedTuple):
    """One kind of decision: its share, and the values that belong together."""

    share: float
    action: str
    verdict: str
    output: str
    refusal_class: str | None
    outcome: str
    codes: tuple[str, ...]
    rule: str | None
    finding: tuple[str, str, str] | None = None


PROFILES = (
    Profile(0.40, "refund", "ALLOW", "ALLOW_EXECUTE", None, "allowed", (), "R_SMALL"),
    Profile(0.22, "tool_call", "ALLOW", "ALLOW_EXECUTE", None, "allowed", (), None),
    Profile(
        0.12,
        "refund",
        "ESCALATE",
        "NEED_CONTEXT",
        "WORKFLOW_BLOCK",
        "needs_something",
        ("REFUND_OVER_ESCALATION_LIMIT",),
        "R_LIMIT",
    ),
    Profile(
        0.08,
        "refund",
        "ESCALATE",
        "NEED_CONTEXT",
        "WORKFLOW_BLOCK",
        "needs_something",
        ("MISSING_EVIDENCE_REFUND",),
        "R_TICKET",
    ),
    Profile(
        0.06,
        "refund",
        "DENY",
        "REFUSE_WITH_PATH",
        "HARD_BLOCK",
        "refused",
        ("CHARGEBACK_RISK_BLOCK",),
        "R_CHARGEBACK",
    ),
    Profile(
        0.06,
        "tool_call",
        "DENY",
        "REFUSE_WITH_PATH",
        "HARD_BLOCK",
        "refused",
        ("RCE_RISK", "EXFILTRATION_RISK"),
        None,
        ("code_execution", "RCE_RISK", "block"),
    ),
    Profile(
        0.04,
        "answer",
        "DENY",
        "REFUSE_WITH_PATH",
        "HARD_BLOCK",
        "refused",
        ("OUTPUT_FORBIDDEN",),
        None,
        ("output", "OUTPUT_FORBIDDEN", "block"),
    ),
    Profile(
        0.02,
        "tool_call",
        "ABSTAIN",
        "REFUSE_WITH_PATH",
        "SOFT_BLOCK",
        "could_not_judge",
        ("RATE_LIMIT",),
        None,
    ),
)


def random_text(rng: Any, count: int, alphabet: Any, width: int, prefix: Any = b"") -> Any:
    """Return an array of texts: a prefix, the same or one a row, and random letters."""
    random = alphabet[rng.integers(0, len(alphabet), (count, width), dtype=np.uint8)]
    if isinstance(prefix, bytes):
        prefix = np.broadcast_to(np.frombuffer(prefix, np.uint8), (count, len(prefix)))
    letters = np.ascontiguousarray(np.concatenate([prefix, random], axis=1))
    return pack_text(letters)


def pack_text(letters: Any) -> Any:
    """Return rows of letters, all of the same width, as an array of texts."""
    count, width = letters.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def time_prefix(times: Any) -> Any:
    """Return the first ten letters of the ids of these times."""
    shifts = np.arange(45, -1, -5)
    return BASE32[(times[:, None] >> shifts) & 31]


def make_rows(rng: Any, tenant: str, day: date, first: int, count: int) -> Any:
    """Return a batch of decisions of a tenant on a day, from a place in its chain on."""
    schema = parquet_schema()
    shares = np.cumsum([one.share for one in PROFILES])
    kinds = pa.array(np.searchsorted(shares, rng.random(count) * shares[-1], side="right"))
    midnight = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
    times = midnight + np.sort(rng.integers(0, DAY_MS, count))
    amounts = np.round(rng.lognormal(4, 1.5, count), 2)
    is_refund = np.array([one.action == "refund" for one in PROFILES])[kinds.to_numpy()]

    def of_kind(name: str, values: Sequence[Any]) -> Any:
        return pa.array(values, schema.field(name).type).take(kinds)

    def same(value: Any, name: str) -> Any:
        return pa.array([value], schema.field(name).type).take(pa.array(np.zeros(count, np.int8)))

    def draw_names(prefix: str, count_of_names: int) -> Any:
        names = pa.array([f"{prefix}{number:06d}" for number in range(count_of_names)])
        return names.take(pa.array(rng.integers(0, count_of_names, count)))

    findings = [
        [dict(zip(("surface", "code", "action"), one.finding, strict=True))] if one.finding else []
        for one in PROFILES
    ]
    columns = {
        "decision_id": random_text(rng, count, BASE32, 16, time_prefix(times)),
        "created_at": pa.array(times, pa.timestamp("ms", "UTC")),
        "tenant": same(tenant, "tenant"),
        "request_id": random_text(rng, count, HEX, 32, b"req-"),
        "root_id": pa.nulls(count, pa.string()),
        "subject": draw_names("user:", 5_000),
        "verdict": of_kind("verdict", [one.verdict for one in PROFILES]),
        "decision_output": of_kind("decision_output", [one.output for one in PROFILES]),
        "refusal_class": of_kind("refusal_class", [one.refusal_class for one in PROFILES]),
        "outcome": of_kind("outcome", [one.outcome for one in PROFILES]),
        "action_type": of_kind("action_type", [one.action for one in PROFILES]),
        "amount_value": pa.array(amounts, mask=~is_refund),
        "amount_currency": of_kind(
            "amount_currency", ["USD" if one.action == "refund" else None for one in PROFILES]
        ),
        "reason_codes": of_kind("reason_codes", [one.codes for one in PROFILES]),
        "leading_code": of_kind("leading_code", [next(iter(one.codes), None) for one in PROFILES]),
        "matched_rules": of_kind(
            "matched_rules", [[one.rule] if one.rule else [] for one in PROFILES]
        ),
        "findings": of_kind("findings", findings),
        "policy_id": same("support", "policy_id"),
        "policy_version": same(f"1.{day.day // 7}.0", "policy_version"),
        "policy_digest": same(DIGESTS[day.day % 4], "policy_digest"),
        "registry_digest": same(DIGESTS[0], "registry_digest"),
        "engine_version": same("0.2.0", "engine_version"),
        "basis": same("request", "basis"),
        "enforced": pa.array(rng.random(count) < 0.9),
        "confirmed": same(True, "confirmed"),
        "seq": pa.array(np.arange(first, first + count)),
        "record_hash": random_text(rng, count, HEX, 64, b"sha256:"),
    }
    return pa.record_batch([columns[name] for name in schema.names], schema=schema)


def write_partition(folder: Path, last_day: date, rows: int, place: tuple[int, int]) -> int:
    """Write the files of one tenant on one day; return their bytes."""
    day_number, tenant_number = place
    day = last_day - timedelta(days=DAYS - 1 - day_number)
    tenant = f"tenant-{tenant_number:03d}"
    rng = np.random.default_rng(place)
    target = folder / f"day={day.isoformat()}" / f"tenant={encode_name(tenant)}"
    target.mkdir(parents=True)
    size = 0
    for start in range(0, rows, MAX_ROWS):
        count, first = min(MAX_ROWS, rows - start), day_number * rows + start + 1
        batch = make_rows(rng, tenant, day, first, count)
        buffer = encode_parquet([batch], batch.schema)
        (target / f"{first:012}-{first + count - 1:012}.parquet").write_bytes(buffer)
        size += buffer.size
    return size


def generate(folder: Path, records: int, last_day: date, processes: int) -> int:
    """Write about so many records, evenly over days and tenants; return their bytes."""
    rows = max(1, records // (DAYS * TENANTS))
    work = partial(write_partition, folder, last_day, rows)
    places = list(product(range(DAYS), range(TENANTS)))
    with ProcessPoolExecutor(processes) as pool:
        return sum(pool.map(work, places, chunksize=10))


def page_queries() -> tuple[str, dict[str, str]]:
    """Return the statements of the page that open the files, and its queries by title."""
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = {one.partition("\n")[0]: SQL.findall(one) for one in sections}
    queries = {title: blocks[0] for title, blocks in found.items() if blocks}
    return queries.pop("Open the files"), queries


def measure_queries(folder: Path, last_day: date) -> Iterator[tuple[str, list[float], int]]:
    """Yield each query with the seconds of each run, and the number of rows it answers with."""
    opening, queries = page_queries()
    yesterday = last_day - timedelta(days=1)
    queries["One tenant, one day"] = f"""
        SELECT verdict, COUNT(*) FROM decisions
        WHERE tenant = 'tenant-007' AND day = '{yesterday}' GROUP BY verdict
    """  # noqa: S608 - names of our own
    queries["Count all"] = "SELECT COUNT(*) FROM decisions"
    with import_package("duckdb").connect() as connection:
        connection.execute(opening.replace("'decisions/", f"'{folder}/"))
        for title, query in queries.items():
            taken = []
            for _ in range(ROUNDS):
                start = time.perf_counter()
                rows = connection.execute(query).fetchall()
                taken.append(time.perf_counter() - start)
            yield title, taken, len(rows)


def measure_export(folder: Path, decisions: int) -> None:
    """Print what exporting a store of real decisions takes."""
    from deciding import small_policy  # noqa: PLC0415 - it needs the peers of other benches
    from large import Days, filled  # noqa: PLC0415

    days = Days(decisions)
    with Gate(small_policy(), open_store(folder / "store.db"), clock=days) as gate:
        assert sum(1 for _ in filled(gate, days, decisions))
        assert gate.store is not None
        before = peak_memory()
        start, work = time.perf_counter(), time.process_time()
        done = export_parquet(gate.store, folder / "exported")
        taken, work = time.perf_counter() - start, time.process_time() - work
        again = time.perf_counter()
        export_parquet(gate.store, folder / "exported")
        again = time.perf_counter() - again
    size = sum(path.stat().st_size for path in (folder / "exported").rglob("*.parquet"))
    print(
        f"export: {done.rows:,} decisions in {done.added} files, {taken:.1f} s, "
        f"{done.rows / taken:,.0f}/s, {work / done.rows * 1e6:.0f} µs of CPU "
        f"and {size / done.rows:.0f} bytes each"
    )
    memory = f"{before >> 20} to {peak_memory() >> 20} MiB"
    print(f"  peak memory {memory}; a run with nothing new {again * 1000:.0f} ms")


def peak_memory() -> int:
    """Return the peak resident memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Print what was generated and exported, and a table of queries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="to generate")
    parser.add_argument("--decisions", type=int, default=20_000, help="to export from a store")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--dir", help="where the files of the run go (default: a temporary one)")
    parser.add_argument("--made", type=Path, help="generate into this folder, or query what it has")
    options = parser.parse_args()
    today = system_clock().date()
    with tempfile.TemporaryDirectory(dir=options.dir) as name:
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        measure_export(Path(name), options.decisions)
        made = options.made or Path(name) / "made"
        last_day = today
        if made.exists():
            last_day = max(date.fromisoformat(path.name[4:]) for path in made.glob("day=*"))
        else:
            measure_generator(made, options.records, today, options.processes)
        print(f"{'query, DuckDB':40}{'first':>10}{'median':>10}{'rows':>8}")
        for title, seconds, answered in measure_queries(made, last_day):
            median = statistics.median(seconds)
            print(f"{title:40}{seconds[0]:>8.2f} s{median:>8.2f} s{answered:>8}", flush=True)
        print(f"peak memory {peak_memory() / 2**30:.1f} GiB")


def measure_generator(folder: Path, records: int, last_day: date, processes: int) -> None:
    """Generate records, and print their number and size."""
    start = time.perf_counter()
    size = generate(folder, records, last_day, processes)
    taken = time.perf_counter() - start
    rows = max(1, records // (DAYS * TENANTS)) * DAYS * TENANTS
    files = sum(1 for _ in folder.rglob("*.parquet"))
    print(
        f"generated: {rows:,} records, {size / 1e9:.2f} GB, {size / rows:.0f} bytes each, "
        f"{files} files, {taken:.0f} s, {rows / taken:,.0f}/s"
    )


if __name__ == "__main__":
    main()
