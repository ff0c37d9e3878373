"""What all benches of the store decide: a small policy, and requests that are never repeated."""

import os
from itertools import count
from typing import Any

from peers import demur_policy
from workload import requests, rules

from demur.codes import Registry
from demur.policy.loader import parse_policy
from demur.policy.policy import Policy

__all__ = ["TENANTS", "asked", "small_policy"]

TENANTS = 10
_fresh = count()


def small_policy() -> Policy:
    """Return a policy of ten rules."""
    return parse_policy(demur_policy(rules(10)), registry=Registry.load())


def asked(many: int, tenants: int = 1) -> list[dict[str, Any]]:
    """Return requests with ids that were not used before."""
    return requests(many, 1, tenants=tenants, ids=f"{os.getpid()}-{next(_fresh)}")
