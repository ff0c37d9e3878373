"""A million decisions a second over ten thousand tenants, simulated: what waits, and where.

Hosts of a database share nothing: each has its tenants and its processes of the service. Requests
come at random times (Poisson), a tenant's share follows Zipf's law. A process decides one request
after the other. At the same time it stores what is decided, one transaction at a time with all that
waits, up to `--max-batch`. The process prepares a transaction, which then waits until it has the
chain heads of all tenants in it, and for a processor of its host. It lets go of the heads when the
processor is done, and waits for the log and the disk. The costs come from `scale_costs.py` and
`service.py`; the same arguments always print the same table.
"""

import argparse
import heapq
import itertools
import math
import random  # noqa: TID251 - a simulation makes its input up, from a fixed seed
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

_WIDTH = 34


class Costs(NamedTuple):
    """What one decision takes, in microseconds of a processor or of waiting, and in bytes."""

    service_us: float = 575.0
    client_us: float = 130.0
    client_record_us: float = 25.0
    server_us: float = 190.0
    server_tenant_us: float = 10.0
    server_record_us: float = 70.0
    disk_us: float = 100.0
    log_bytes: float = 3_350.0
    log_mb_s: float = 1_000.0


_COST_SOURCES = {
    "service_us": "CPU of the service (bench/service.py: a million / `a second of one core`)",
    "client_us": "CPU of the process for a transaction (bench/scale_costs.py)",
    "client_record_us": "CPU that a record adds to it (bench/scale_costs.py)",
    "server_us": "CPU of the server for a transaction (bench/scale_costs.py)",
    "server_tenant_us": "CPU that a tenant adds to it (bench/scale_costs.py)",
    "server_record_us": "CPU that a record adds to it (bench/scale_costs.py)",
    "disk_us": "time in which the disk confirms a write (bench/scale_costs.py)",
    "log_bytes": "bytes of the log for a record (bench/scale_costs.py)",
    "log_mb_s": "megabytes a second that the log of a host takes (an assumption)",
}


class Layout(NamedTuple):
    """How many machines there are, and which process gets a request.

    With `spread`, any process of the tenant's host gets it; otherwise always the same one.
    """

    hosts: int
    processes: int
    cores: int
    max_batch: int = 512
    spread: bool = False


class DecidedRequest(NamedTuple):
    """A decided request that is to be stored: when it was decided, and when it came."""

    at: float
    tenant: int
    arrival: float


class SimulationResult(NamedTuple):
    """What became of the requests of one host, or of all hosts.

    `waits` holds for each stored request the tenant and the seconds from its arrival until it was
    stored. `service_busy` and `server_busy` are seconds of processors; `held` is how long the head
    that was held longest was not free.
    """

    offered: int
    waits: list[tuple[int, float]]
    transactions: int
    service_busy: float
    server_busy: float
    held: float


def zipf_shares(tenants: int, exponent: float) -> list[float]:
    """Return the share of each tenant, the largest first."""
    weights = [rank**-exponent for rank in range(1, tenants + 1)]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def split_shares(shares: Sequence[float], largest: float) -> list[float]:
    """Return the shares with each larger one split evenly over as many chains as it needs."""
    split = (
        itertools.repeat(share / (parts := math.ceil(share / largest)), parts) for share in shares
    )
    return sorted(itertools.chain.from_iterable(split), reverse=True)


def place_tenants(shares: Sequence[float], places: int) -> list[list[int]]:
    """Return the tenants of each place: the largest first, each to the least loaded place."""
    loads = [(0.0, place) for place in range(places)]
    placed: list[list[int]] = [[] for _ in range(places)]
    for tenant, share in enumerate(shares):
        load, place = heapq.heappop(loads)
        placed[place].append(tenant)
        heapq.heappush(loads, (load + share, place))
    return placed


class _Transaction:
    """The records that a process stores at once, and the chain heads that it still needs."""

    def __init__(self, process: int, batch: list[DecidedRequest]) -> None:
        self.process = process
        self.batch = batch
        # All writers lock in the same order, so that none waits for another in a circle.
        self.tenants = sorted({one.tenant for one in batch})
        self.locked = 0


class Host:
    """A host of a database and its processes, as they store what was decided."""

    def __init__(
        self, queues: Sequence[list[DecidedRequest]], layout: Layout, costs: Costs
    ) -> None:
        self.waits: list[tuple[int, float]] = []
        self.transactions = 0
        self.server_busy = 0.0
        self.held: defaultdict[int, float] = defaultdict(float)
        self._queues, self._taken = queues, [0] * len(queues)
        self._layout, self._costs = layout, costs
        self._locks: dict[int, deque[_Transaction]] = {}
        self._locked_at: dict[int, float] = {}
        self._cores, self._log_free = [0.0] * layout.cores, 0.0
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = itertools.count()
        for process, queue in enumerate(queues):
            if queue:
                self._add_event(queue[0].at, partial(self._prepare, process))

    def run(self, seconds: float) -> None:
        """Go on until so many seconds have passed since the beginning."""
        while self._events and self._events[0][0] <= seconds:
            now, _, go_on = heapq.heappop(self._events)
            go_on(now)

    def _add_event(self, at: float, go_on: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (at, next(self._order), go_on))

    def _prepare(self, process: int, now: float) -> None:
        """Prepare a transaction with what waits in a process."""
        costs, queue, first = self._costs, self._queues[process], self._taken[process]
        last = bisect_right(queue, now, first, key=attrgetter("at"))
        last = self._taken[process] = min(last, first + self._layout.max_batch)
        transaction = _Transaction(process, queue[first:last])
        work = costs.client_us + costs.client_record_us * len(transaction.batch)
        self._add_event(now + work / 1e6, partial(self._lock, transaction))

    def _lock(self, transaction: _Transaction, now: float) -> None:
        """Lock the heads that are still needed, up to one that another holds."""
        for tenant in transaction.tenants[transaction.locked :]:
            if tenant in self._locks:
                self._locks[tenant].append(transaction)
                return
            self._locks[tenant] = deque()
            self._locked_at[tenant] = now
            transaction.locked += 1
        self._append(transaction, now)

    def _append(self, transaction: _Transaction, now: float) -> None:
        costs, records = self._costs, len(transaction.batch)
        tenants = len(transaction.tenants)
        work = costs.server_us + costs.server_tenant_us * tenants + costs.server_record_us * records
        end = max(now, heapq.heappop(self._cores)) + work / 1e6
        heapq.heappush(self._cores, end)
        self.server_busy += work / 1e6
        self._add_event(end, partial(self._let_go, transaction))

    def _let_go(self, transaction: _Transaction, now: float) -> None:
        """Release the heads to those that wait, and send the records to the disk."""
        costs = self._costs
        for tenant in transaction.tenants:
            self.held[tenant] += now - self._locked_at[tenant]
            waiters = self._locks[tenant]
            if waiters:
                self._locked_at[tenant] = now
                following = waiters.popleft()
                following.locked += 1
                self._lock(following, now)
            else:
                del self._locks[tenant]
        written = costs.log_bytes * len(transaction.batch) / (costs.log_mb_s * 1e6)
        self._log_free = max(self._log_free, now) + written
        self._add_event(self._log_free + costs.disk_us / 1e6, partial(self._end, transaction))

    def _end(self, transaction: _Transaction, now: float) -> None:
        """Answer the callers, and begin the next transaction of the process."""
        self.transactions += 1
        self.waits += [(one.tenant, now - one.arrival) for one in transaction.batch]
        process = transaction.process
        queue, taken = self._queues[process], self._taken[process]
        if taken < len(queue):
            self._add_event(max(now, queue[taken].at), partial(self._prepare, process))


def simulate_host(
    rates: Sequence[float], layout: Layout, costs: Costs, seconds: float, seed: int
) -> SimulationResult:
    """Return what becomes of the requests of one host, whose tenants have these rates a second."""
    queues = decide_requests(rates, layout, costs, seconds, seed)
    host = Host(queues, layout, costs)
    host.run(seconds)
    offered = sum(map(len, queues))
    return SimulationResult(
        offered,
        host.waits,
        host.transactions,
        offered * costs.service_us / 1e6,
        host.server_busy,
        max(host.held.values(), default=0.0),
    )


def decide_requests(
    rates: Sequence[float], layout: Layout, costs: Costs, seconds: float, seed: int
) -> list[list[DecidedRequest]]:
    """Return what each process decides of the requests that come within some seconds."""
    rng = random.Random(seed)  # noqa: S311 - made-up arrivals
    service_s = costs.service_us / 1e6
    processes = range(layout.processes)
    placed = place_tenants(rates, layout.processes)
    own = {tenant: process for process in processes for tenant in placed[process]}
    arrivals = list(_arrivals(rng, math.fsum(rates), seconds))
    tenants = rng.choices(range(len(rates)), rates, k=len(arrivals))
    queues: list[list[DecidedRequest]] = [[] for _ in processes]
    free = [0.0] * layout.processes
    for arrival, tenant in zip(arrivals, tenants, strict=True):
        process = rng.randrange(layout.processes) if layout.spread else own[tenant]
        free[process] = decided = max(free[process], arrival) + service_s
        queues[process].append(DecidedRequest(decided, tenant, arrival))
    return queues


def _arrivals(rng: random.Random, rate: float, seconds: float) -> Iterator[float]:
    at = rng.expovariate(rate)
    while at < seconds:
        yield at
        at += rng.expovariate(rate)


def simulate(
    rates: Sequence[float], layout: Layout, costs: Costs, seconds: float, seed: int
) -> SimulationResult:
    """Return what becomes of the requests of all hosts; tenants are numbered by their rates."""
    parts = []
    for host, tenants in enumerate(place_tenants(rates, layout.hosts)):
        own = [rates[tenant] for tenant in tenants]
        part = simulate_host(own, layout, costs, seconds, seed + host)
        parts.append(part._replace(waits=[(tenants[own], wait) for own, wait in part.waits]))
    return SimulationResult(
        sum(part.offered for part in parts),
        [wait for part in parts for wait in part.waits],
        sum(part.transactions for part in parts),
        sum(part.service_busy for part in parts),
        sum(part.server_busy for part in parts),
        max(part.held for part in parts),
    )


def quantile(values: Sequence[float], part: float) -> float:
    """Return a quantile of sorted values."""
    return values[min(int(part * len(values)), len(values) - 1)] if values else math.nan


def _parse_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=1e6, help="decisions a second")
    parser.add_argument("--tenants", type=int, default=10_000)
    parser.add_argument("--zipf", type=float, default=1.0, help="exponent of the tenants' shares")
    parser.add_argument("--hosts", type=int, default=24, help="hosts of databases")
    parser.add_argument("--processes", type=int, default=32, help="of the service, for each host")
    parser.add_argument("--cores", type=int, default=32, help="of each host of a database")
    parser.add_argument("--max-batch", type=int, default=512, help="records in a transaction")
    parser.add_argument("--load", type=float, default=0.6, help="share of a limit to plan with")
    parser.add_argument("--seconds", type=float, default=0.5, help="simulated time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--core-hour", type=float, default=0.05, help="price (an assumption)")
    parser.add_argument("--gb-month", type=float, default=0.10, help="price (an assumption)")
    parser.add_argument("--kept-bytes", type=float, default=3_300.0, help="(bench/scale_costs.py)")
    for name, default in Costs()._asdict().items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=float, default=default, help=_COST_SOURCES[name])
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    """Print the tables."""
    options = _parse_arguments(words)
    costs = Costs(*(getattr(options, name) for name in Costs._fields))
    shares = zipf_shares(options.tenants, options.zipf)
    show_limits(options, costs, shares)
    show_scenarios(options, costs, shares)


def show_limits(options: argparse.Namespace, costs: Costs, shares: Sequence[float]) -> None:
    """Print the limits that follow from the costs alone, and what a million decisions cost."""
    batch = options.max_batch
    process = 1e6 / costs.service_us
    chain = 1e6 / (costs.server_record_us + (costs.server_us + costs.server_tenant_us) / batch)
    server = options.cores * 1e6 / (costs.server_record_us + costs.server_us / batch)
    log = costs.log_mb_s * 1e6 / costs.log_bytes
    print("limits by the costs alone, decisions a second")
    for name, rate in (
        ("a process of the service", process),
        ("a chain, in full transactions", chain),
        (f"the {options.cores} cores of a host", server),
        ("the log of a host", log),
        ("asked of the hottest tenant", options.rate * shares[0]),
        ("asked of a host, in the mean", options.rate / options.hosts),
    ):
        print(f"  {name:{_WIDTH}}{rate:>12,.0f}")
    hot = sum(options.rate * share > chain for share in shares)
    print(f"  {'tenants that ask more than a chain':{_WIDTH}}{hot:>12,}")


_COLUMNS = ("stored", "p50 ms", "p99 ms", "hot p99", "records", "service", "server", "head")


def show_scenarios(options: argparse.Namespace, costs: Costs, shares: Sequence[float]) -> None:
    """Print what is stored, and how long it takes, with one chain for each tenant or several."""
    largest = options.load * 1e6 / costs.service_us / options.rate
    split = split_shares(shares, largest)
    print(
        f"\n{options.rate:,.0f} decisions a second, {options.tenants:,} tenants, {options.hosts} "
        f"hosts with {options.processes} processes each, {options.seconds:g} s simulated"
    )
    print(f"{'':{_WIDTH}}" + "".join(f"{name:>9}" for name in _COLUMNS))
    outcomes = {}
    for name, own, spread in (
        ("a chain each, one process", shares, False),
        ("a chain each, any process", shares, True),
        (f"{len(split):,} chains, one process", split, False),
        (f"{len(split):,} chains, any process", split, True),
    ):
        layout = Layout(options.hosts, options.processes, options.cores, options.max_batch, spread)
        rates = [options.rate * share for share in own]
        outcomes[name] = found = simulate(rates, layout, costs, options.seconds, options.seed)
        _show_outcome(name, found, layout, options.seconds)
    hot = sum(share > largest for share in shares)
    chains = hot + len(split) - len(shares)
    print(
        f"{hot} tenants ask for more than {options.load:.0%} of a process and have {chains} chains"
    )
    _show_costs(options, outcomes[f"{len(split):,} chains, one process"])


def _show_outcome(name: str, found: SimulationResult, layout: Layout, seconds: float) -> None:
    every = sorted(wait for _, wait in found.waits)
    hottest = sorted(wait for tenant, wait in found.waits if tenant == 0)
    machines = layout.hosts * seconds
    print(
        f"{name:{_WIDTH}}{len(every) / found.offered:>9.1%}{quantile(every, 0.5) * 1e3:>9.2f}"
        f"{quantile(every, 0.99) * 1e3:>9.2f}{quantile(hottest, 0.99) * 1e3:>9.2f}"
        f"{len(every) / found.transactions:>9.1f}"
        f"{found.service_busy / (machines * layout.processes):>9.0%}"
        f"{found.server_busy / (machines * layout.cores):>9.0%}{found.held / seconds:>9.0%}"
    )


def _show_costs(options: argparse.Namespace, found: SimulationResult) -> None:
    """Print what a million decisions cost, in the layout that stores all of them."""
    million = 1e6 / found.offered
    service, server = found.service_busy * million, found.server_busy * million
    kept = options.kept_bytes / 1e3
    compute = (service + server) / options.load / 3600 * options.core_hour
    print("\na million decisions, one process for each chain")
    for name, amount in (
        ("seconds of a core, service", service),
        ("seconds of a core, server", server),
        ("gigabytes kept, one copy", kept),
        (f"price of the cores at {options.load:.0%} load", compute),
        ("price of a month of one copy", kept * options.gb_month),
    ):
        print(f"  {name:{_WIDTH}}{amount:>12,.3f}")


if __name__ == "__main__":
    main()
