"""The simulation of many hosts agrees with queueing theory where that has an answer."""

import math
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest

sys.path.append(str(Path(__file__).parents[3] / "bench"))

from scale_simulation import (
    Costs,
    Host,
    Layout,
    decide_requests,
    main,
    place_tenants,
    simulate,
    simulate_host,
    split_shares,
    zipf_shares,
)

# Other benches have names of test packages.
sys.path.pop()

FREE = Costs(**dict.fromkeys(Costs._fields, 0.0))._replace(log_mb_s=1.0)
ONE = Layout(hosts=1, processes=1, cores=1)


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_a_process_that_only_decides_is_a_queue_with_one_server_and_fixed_service(
    load: float,
) -> None:
    service_s = 0.001

    found = simulate_host([load / service_s], ONE, FREE._replace(service_us=1000.0), 400.0, seed=1)

    # M/D/1, by Pollaczek and Khinchine: the wait, and the service itself.
    expected = service_s * load / (2 * (1 - load)) + service_s
    assert fmean(wait for _, wait in found.waits) == pytest.approx(expected, rel=0.03)


def test_a_chain_that_is_asked_too_much_stores_full_transactions_without_a_pause() -> None:
    costs = FREE._replace(server_us=1000.0, server_record_us=100.0)
    layout = ONE._replace(processes=8, cores=8, max_batch=10, spread=True)

    found = simulate_host([50_000.0], layout, costs, 5.0, seed=1)

    assert len(found.waits) == pytest.approx(5.0 * 10 / 0.002, rel=0.01)
    assert len(found.waits) == pytest.approx(10 * found.transactions, rel=0.01)
    assert found.held == pytest.approx(5.0, rel=0.01)


def test_a_chain_is_free_while_a_transaction_is_prepared_and_while_the_disk_writes() -> None:
    costs = FREE._replace(client_us=700.0, server_us=100.0, disk_us=200.0)
    layout = ONE._replace(processes=10, cores=10, max_batch=1, spread=True)

    found = simulate_host([50_000.0], layout, costs, 5.0, seed=1)

    # Ten processes with a transaction of a millisecond each keep the head of one chain busy.
    assert len(found.waits) == pytest.approx(5.0 * 10_000, rel=0.01)
    assert found.held == pytest.approx(5.0, rel=0.01)


def test_the_cores_and_the_log_of_a_host_bound_what_it_stores() -> None:
    rates = [1000.0] * 40
    layout = Layout(hosts=1, processes=40, cores=4)
    for costs in (
        FREE._replace(server_record_us=200.0),
        FREE._replace(log_bytes=1000.0, log_mb_s=20.0),
    ):
        found = simulate_host(rates, layout, costs, 3.0, seed=1)

        assert len(found.waits) == pytest.approx(3.0 * 20_000, rel=0.03)


@pytest.mark.parametrize("spread", [True, False])
def test_no_request_is_lost_or_stored_twice(spread: bool) -> None:
    rates = [500.0 * share for share in zipf_shares(30, 1.0)]
    layout = Layout(hosts=1, processes=4, cores=2, max_batch=5, spread=spread)
    queues = decide_requests(rates, layout, Costs(), 4.0, seed=3)
    host = Host(queues, layout, Costs())

    host.run(2.0)
    early = Counter(host.waits)
    host.run(math.inf)

    came = Counter(one.tenant for queue in queues for one in queue)
    assert Counter(tenant for tenant, _ in host.waits) == came
    assert early <= Counter(host.waits)
    assert 0.4 < early.total() / came.total() < 0.6
    assert min(wait for _, wait in host.waits) > (Costs().service_us + Costs().server_us) / 1e6


def test_hosts_share_nothing_and_tenants_keep_their_numbers() -> None:
    rates = [400.0, 300.0, 200.0, 100.0]
    layout = Layout(hosts=2, processes=2, cores=2)

    found = simulate(rates, layout, Costs(), 10.0, seed=1)

    stored = Counter(tenant for tenant, _ in found.waits)
    assert found.offered == pytest.approx(10 * sum(rates), rel=0.05)
    for tenant, rate in enumerate(rates):
        assert stored[tenant] == pytest.approx(10 * rate, rel=0.1)


def test_shares_add_up_and_large_ones_are_split() -> None:
    shares = zipf_shares(100, 1.0)
    split = split_shares(shares, 0.01)

    assert math.fsum(shares) == pytest.approx(1.0)
    assert math.fsum(split) == pytest.approx(1.0)
    assert max(split) <= 0.01
    assert shares[0] == pytest.approx(2 * shares[1])


def test_each_tenant_has_one_place_and_places_are_loaded_alike() -> None:
    shares = split_shares(zipf_shares(1000, 1.0), 0.01)
    placed = place_tenants(shares, 8)

    assert sorted(tenant for place in placed for tenant in place) == list(range(len(shares)))
    loads = [sum(shares[tenant] for tenant in place) for place in placed]
    assert max(loads) == pytest.approx(min(loads), rel=0.01)


def test_the_same_arguments_print_the_same_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--rate", "20000", "--tenants", "50", "--hosts", "2", "--processes", "8"]
    words += ["--seconds", "0.05"]
    main(words)
    first = capsys.readouterr().out
    main(words)

    assert capsys.readouterr().out == first
    assert "a chain each, one process" in first


@pytest.mark.slow
def test_the_page_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    main([])

    page = Path(__file__).parents[3] / "docs/explanation/scale.md"
    assert capsys.readouterr().out in page.read_text(encoding="utf-8")
