"""Judging and deciding beside the peers: the same rules, the same requests, one interleaved run.

Before anything is measured, verdict and matched rules are compared on all requests; a
difference ends the run. Peers that are not installed are named and left out.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from peers import PEERS, Answer, Engine, Lumyn, demur_engine, demur_policy, have, missing_peers
from table import Samples, Table, amount, interleaved, per_call
from workload import CHANGED_SMALL, RULES_AN_ACTION, requests, rules

from demur.audit.diff import compare_policy
from demur.codes import Registry
from demur.gate.config import Config, close_gates, decide
from demur.gate.gate import Gate
from demur.model.record import DecisionRecord
from demur.policy.loader import parse_policy
from demur.store.opening import open_store
from demur.store.store import Store

EVALUATED = (10, 100, 1_000)
LARGEST = 10_000
ROUNDS = 25
GROWTH_ROUNDS = 60
REQUESTS = 200
REPEATS = 20
EVALUATE_AIMS = {
    "lumyn": {10: 20, 1_000: 150},
    "cedarpy": {10: 30, 1_000: 300},
    "regorus": {10: 4, 1_000: 80},
}
NAMES = {
    "lumyn": "lumyn evaluate_policy_v1",
    "cedarpy": "cedarpy PolicySet handle",
    "regorus": "regorus RVM",
}
DECIDED = (10, 1_000)
DOCUMENTED_AIMS = {10: 60, 1_000: 2_000}
CALLS = 300
BATCH = 100
DIFFED = 2_000

_fresh = count()


def main() -> int:
    """Print the table; the status says whether all aims were met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--dir", help="where the databases of the run go (default: a temporary one)"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    for name in missing_peers():
        print(f"{name} is not installed: its rows are left out")
    table = Table("what", "demur", "peer")
    evaluation(table, options.rounds)
    growth(table)
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        for size in DECIDED:
            deciding(table, size, Path(folder) / str(size), options.rounds)
        comparing(table, Path(folder), max(3, options.rounds // 8))
    print(f"aims not met: {table.missed}")
    return 1 if table.missed else 0


def check(
    name: str, asked: Sequence[Any], ours: Iterable[Answer], theirs: Iterable[Answer]
) -> None:
    """End the run if demur and a peer do not agree on every request."""
    for request, mine, other in zip(asked, ours, theirs, strict=True):
        if mine != other:
            sys.exit(f"{name} differs from demur on {json.dumps(request)}:\n  {mine}\n  {other}")


# -- evaluation --------------------------------------------------------------------------------


def evaluation(table: Table, rounds: int) -> None:
    """Measure requests to verdict and matched rules, without anything around it."""
    for size in EVALUATED:
        spread, listed = size // RULES_AN_ACTION, rules(size)
        every = requests(max(REQUESTS, 8 * spread), spread)
        engines = {"demur": demur_engine(listed)}
        engines |= {name: peer.engine(listed) for name, peer in PEERS.items() if have(peer.module)}
        answers = {name: answered(engine, every) for name, engine in engines.items()}
        for name, theirs in answers.items():
            check(name, every, answers["demur"], theirs)
        timed = every[:REQUESTS]
        asked = {name: [engine.prepare(one) for one in timed] for name, engine in engines.items()}
        taken = interleaved(_sides(engines, asked), rounds)
        first = amount(taken["first"].median)
        table.row(f"evaluate, {size:,} rules, the first {REQUESTS} after other work", first)
        for name in [name for name in engines if name != "demur"]:
            compared(
                table,
                f"evaluate, {size:,} rules, against {NAMES[name]}",
                taken["demur"],
                taken[name],
                EVALUATE_AIMS[name].get(size),
            )


def _sides(
    engines: Mapping[str, Engine], asked: Mapping[str, list[Any]]
) -> dict[str, Callable[[], float]]:
    ours = engines["demur"].run
    return {
        # Right after the peers, the machine's caches hold nothing of demur's.
        "first": partial(per_call, ours, asked["demur"]),
        **{name: partial(per_call, engine.run, asked[name]) for name, engine in engines.items()},
        # The peers work for much longer on as many requests; a sample of demur's is long too.
        "demur": partial(per_call, ours, asked["demur"] * REPEATS),
    }


def answered(engine: Engine, asked: Iterable[dict[str, Any]]) -> list[Answer]:
    """Return an engine's answers."""
    return [engine.answer(engine.run(engine.prepare(request))) for request in asked]


def growth(table: Table) -> None:
    """Measure what unrelated rules cost demur."""
    spreads = {"one action asked": 1, "100 actions asked": 100}
    small, large = demur_engine(rules(RULES_AN_ACTION)), demur_engine(rules(LARGEST))
    sides = {"base": partial(per_call, small.run, requests(REQUESTS, 1))} | {
        name: partial(per_call, large.run, requests(REQUESTS, spread))
        for name, spread in spreads.items()
    }
    for sample in sides.values():
        sample()
    taken = interleaved(sides, GROWTH_ROUNDS)
    base = taken["base"].median
    for name, spread in spreads.items():
        table.row(
            f"evaluate, 10 -> {LARGEST:,} rules, {name}",
            amount(taken[name].median),
            f"({amount(base)})",
            ratio=taken[name].median / base,
            at_most=1.3 if spread == 1 else None,
        )


def compared(
    table: Table, what: str, ours: Samples, theirs: Samples, at_least: float | None = None
) -> None:
    """Add a row that says how many times faster demur is."""
    mine, other = ours.median, theirs.median
    table.row(what, amount(mine), amount(other), ratio=other / mine, at_least=at_least)


# -- decide() ----------------------------------------------------------------------------------


def deciding(table: Table, size: int, folder: Path, rounds: int) -> None:
    """Measure whole decisions: checked, judged, recorded, and stored where there is a store."""
    if not have("lumyn"):
        return
    spread, listed = size // RULES_AN_ACTION, rules(size)
    folder.mkdir()
    path = folder / "policy.json"
    path.write_text(demur_policy(listed))
    policy = parse_policy(path.read_text(), registry=Registry.load())
    config = Config(policy=str(path), store=str(folder / "line.db"), durability="normal")
    lumyn = Lumyn(listed, folder / "lumyn")
    bare = Gate(policy)
    with (
        Gate(policy, open_store(folder / "normal.db", durability="normal")) as normal,
        Gate(policy, open_store(folder / "full.db")) as full,
    ):
        asked = requests(REQUESTS, spread, ids="check")
        agreed(asked, lumyn, [bare.decide, normal.decide, partial(decide, config=config)])
        line = _calls(partial(decide, config=config), spread, CALLS)
        sides = {
            "bare": _calls(bare.decide, spread, CALLS),
            "reused": _calls(lumyn.reused, spread, CALLS // 10),
            "normal": _calls(normal.decide, spread, CALLS),
            "batch": lambda: _batched(full, spread),
        }
        taken = interleaved(sides, rounds)
        # The peer reads the policy each time, which for a large one takes a second.
        slow = {"line": line, "documented": _calls(lumyn.documented, spread, 2)}
        taken |= interleaved(slow, max(3, rounds * 10 // size))
        close_gates()
    _decided(table, size, taken)


def agreed(
    asked: Sequence[dict[str, Any]],
    lumyn: Lumyn,
    ways: Iterable[Callable[[dict[str, Any]], DecisionRecord]],
) -> None:
    """End the run unless every way to decide gives lumyn's verdicts and rules."""
    theirs = [lumyn.answer(lumyn.reused(request)) for request in asked]
    for way in ways:
        ours = [
            Answer(record.verdict.value, frozenset(rule.rule_id for rule in record.matched_rules))
            for record in map(way, asked)
        ]
        check("lumyn decide_v1", asked, ours, theirs)


def _calls(call: Callable[[Any], object], spread: int, calls: int) -> Callable[[], float]:
    """Return what takes a sample of `calls` requests, each with an id of its own."""
    return lambda: per_call(call, _new_requests(calls, spread))


def _new_requests(count_: int, spread: int) -> list[dict[str, Any]]:
    return requests(count_, spread, ids=f"run-{next(_fresh)}")


def _batched(gate: Gate, spread: int) -> float:
    return per_call(gate.decide_many, [_new_requests(BATCH, spread)]) / BATCH


def _decided(table: Table, size: int, taken: dict[str, Samples]) -> None:
    reused = taken["reused"]
    label = f"decide, {size:,} rules"
    compared(table, f"{label}, no store, against lumyn reused", taken["bare"], reused, 50)
    compared(table, f"{label}, SQLite normal, against lumyn reused", taken["normal"], reused, 12)
    table.row(
        f"{label}, the same, mean of all calls",
        amount(taken["normal"].mean),
        amount(reused.mean),
        ratio=reused.mean / taken["normal"].mean,
    )
    compared(table, f"{label}, SQLite full, {BATCH} together", taken["batch"], reused, 25)
    compared(
        table,
        f"{label}, demur.decide(config=...), against lumyn documented",
        taken["line"],
        taken["documented"],
        DOCUMENTED_AIMS[size],
    )


# -- diff --------------------------------------------------------------------------------------


def comparing(table: Table, folder: Path, rounds: int) -> None:
    """Measure a candidate policy over stored decisions, a record."""
    if not have("lumyn"):
        return
    past, candidate = rules(RULES_AN_ACTION), rules(RULES_AN_ACTION, CHANGED_SMALL)
    asked = requests(DIFFED, 1, ids="past")
    registry = Registry.load()
    text = demur_policy(candidate)
    dataset = folder / "records.json"
    before = Lumyn(past, folder / "past")
    dataset.write_text(json.dumps([before.reused(request) for request in asked]))
    after = Lumyn(candidate, folder / "candidate")
    with open_store(folder / "past.db", durability="normal") as store:
        gate = Gate(parse_policy(demur_policy(past), registry=registry), store)
        gate.decide_many(asked)
        mine, theirs = diffed(store, text, registry), after.diff(dataset)
        if not mine or mine != theirs:
            sys.exit(f"lumyn's diff differs from demur's: {theirs}, not {mine}")
        taken = interleaved(
            {
                "demur": lambda: per_call(lambda _: diffed(store, text, registry), [None]) / DIFFED,
                "lumyn": lambda: per_call(after.diff, [dataset]) / DIFFED,
            },
            rounds,
        )
    what = f"diff of {DIFFED:,} stored decisions, a record, against lumyn diff"
    compared(table, what, taken["demur"], taken["lumyn"], 40)


def diffed(store: Store, candidate: str, registry: Registry) -> Counter[tuple[str, str]]:
    """Return the verdicts that a candidate would change: read, judged again, compared."""
    found = compare_policy(
        parse_policy(candidate, registry=registry), store.find_records(), registry=registry
    )
    if found.compared != DIFFED or found.failed:
        sys.exit(f"only {found.compared} of {DIFFED} decisions could be compared")
    changed = {(str(a), str(b)): n for (a, b), n in found.verdicts.items() if a is not b}
    return Counter(changed)


if __name__ == "__main__":
    sys.exit(main())
