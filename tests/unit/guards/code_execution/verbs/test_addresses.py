"""Hosts, and what it means to send them data."""

import pytest

from demur.guards.code_execution.config import CommandConfig
from demur.guards.code_execution.places import bounds_of
from demur.guards.code_execution.value import Taint
from demur.guards.code_execution.verbs.addresses import hosts_of, reached, sent
from demur.guards.code_execution.verbs.around import Around

BOUNDS = bounds_of(CommandConfig(), None)
ANYWHERE = Around(CommandConfig(), BOUNDS)
SOME = Around(CommandConfig(hosts=("*.example.com",)), BOUNDS)


def test_hosts_come_out_of_addresses() -> None:
    texts = ["https://me:pw@A.example.com:8080/x", "x", "http://[::1]/", "s3://bucket/key"]

    assert hosts_of(texts) == ["a.example.com", "[::1]", "bucket"]


def test_who_is_reached() -> None:
    hosts = ["a.example.com", "b.test", "localhost", "169.254.169.254"]

    assert [tuple(sight) for sight in reached(hosts, SOME)] == [
        ("HOST_NOT_ALLOWED", "b.test"),
        ("METADATA", "169.254.169.254"),
    ]
    assert [sight.rule for sight in reached(hosts, ANYWHERE)] == ["METADATA"]


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

    assert [s.rule for s in sent(data, ["b.test"], ANYWHERE, data=True)] == want
    assert list(sent(data, ["127.0.0.1"], ANYWHERE, data=True)) == []
    assert list(sent(data, ["a.example.com"], SOME, data=True)) == []


def test_nothing_sent_is_nothing() -> None:
    assert list(sent(frozenset(), ["b.test"], ANYWHERE, data=False)) == []
