"""People for tests: rows as the store keeps them, and a service key."""

from typing import Any

from demur.grants.person_keys import ServiceKey
from demur.store.people_tables import Person
from demur.store.store import Store

__all__ = ["AUTHOR", "SERVICE_KEY", "add_person", "person"]

SERVICE_KEY = ServiceKey(bytes(range(32)))
AUTHOR: Any = {"by": "tests", "reason": "a test", "now": "2026-11-15T12:00:00.000Z"}


def person(login: str = "mary", role: str = "approver", **fields: Any) -> Person:
    """Return a person of the tenant `default`, unless the test says otherwise."""
    usual: dict[str, Any] = {
        "tenant": "default",
        "groups": "",
        "password_hash": None,
        "issuer": None,
        "oidc_subject": None,
        "created_at": "2026-11-15T12:00:00.000Z",
    }
    return Person(login=login, role=role, **{**usual, **fields})


def add_person(store: Store, login: str = "mary", role: str = "approver", **fields: Any) -> Person:
    """Return a person who was added to a store."""
    added = person(login, role, **fields)
    store.add_person(added, **AUTHOR)
    return added
