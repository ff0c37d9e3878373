"""Hosts, and what it means to send them data."""

import pytest

from demur.guards.code_execution.config import CommandConfig
from demur.guards.code_execution.places import workspace_bounds
from demur.guards.code_execution.value import Taint
from demur.guards.code_execution.verbs.addresses import find_hosts, check_hosts, check_sent_data
from demur.guards.code_execution.verbs.around import CommandContext

BOUNDS = workspace_bounds(CommandConfig(), None)
ANYWHERE = CommandContext(CommandConfig(), BOUNDS)
SOME = CommandContext(CommandConfig(hosts=("*.example.com",)), BOUNDS)


def test_hosts_come_out_of_addresses() -> None:
    texts = ["https://me:pw@A.example.com:8080/x", "x", "http://[::1]/", "s3://bucket/key"]

    assert find_hosts(texts) == ["a.example.com", "[::1]", "bucket"]


def test_who_is_reached() -> None:
    hosts = ["a.example.com", "b.test", "localhost", "169.254.169.254"]

    assert [tuple(sight) for sight in check_hosts(hosts, SOME)] == [
        ("HOST_NOT_ALLOWED", "b.test"),
        ("METADATA", "169.254.169.254"),
    ]
    assert [sight.rule for sight in check_hosts(hosts, ANYWHERE)] == ["METADATA"]


@pytest.mark.parametrize(
    ("taints", "want"),
    [
        ({Taint.SECRET}, ["SECRET_SENT"]),
        ({Taint.ENVIRONMENT, Taint.FILE}, ["SECRET_SENT"]),
        ({Taint.FILE}, ["DATA_SENT"]),
        (set(), ["WORK_SENT"]),
    ],
)
def test_what_is_sent(taints: set[Taint], want: list[str]) -> None:
    data = frozenset(taints)

    assert [s.rule for s in check_sent_data(data, ["b.test"], ANYWHERE, data=True)] == want
    assert list(check_sent_data(data, ["127.0.0.1"], ANYWHERE, data=True)) == []
    assert list(check_sent_data(data, ["a.example.com"], SOME, data=True)) == []


def test_nothing_sent_is_nothing() -> None:
    assert list(check_sent_data(frozenset(), ["b.test"], ANYWHERE, data=False)) == []
