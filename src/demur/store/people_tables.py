"""Tables of people: who may log in, and the keys with which the service signs for them.

Each change is one transaction with an event of the chain that says who made it and why. Events of
people of all tenants are links of the chain of the tenant `default`.
"""

# ruff: noqa: S608 - statements are built from our own names; values are bound

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from demur.errors import InputError
from demur.model.request import DEFAULT_TENANT
from demur.store.backend import Execute, insert_statement
from demur.store.grant_tables import GrantSql, name_values
from demur.store.retention import EventAuthor

PERSON_ADDED = "person_added"
PERSON_CHANGED = "person_changed"
PERSON_KEY_RETIRED = "person_key_retired"


class Person(NamedTuple):
    """A person who may log in. An empty tenant stands for all; groups are separated by spaces.

    People of an identity provider have an `issuer` and an `oidc_subject`, and no password.
    """

    login: str
    tenant: str
    role: str
    groups: str
    password_hash: str | None
    issuer: str | None
    oidc_subject: str | None
    created_at: str
    disabled_at: str | None = None
    note: str = ""
    generation: int = 1


class PersonKey(NamedTuple):
    """A person's key: the public half with the certificate of its issuer, the other half sealed."""

    key_id: str
    login: str
    tenant: str
    algorithm: str
    public_key: str
    sealed_secret: str
    issuer: str
    certificate: str
    created_at: str
    retired_at: str | None = None


class PersonChange(NamedTuple):
    """What is to change of a person; None leaves it as it is."""

    role: str | None = None
    groups: str | None = None
    note: str | None = None
    password_hash: str | None = None
    disabled: bool | None = None


# Roles of people whose keys may sign. A person who has none of them has no key.
ADMIN = "admin"
APPROVING_ROLES = frozenset({"approver", ADMIN})
_SELECT_PEOPLE = f"SELECT {', '.join(Person._fields)} FROM people"
_SELECT_PERSON_KEYS = f"SELECT {', '.join(PersonKey._fields)} FROM person_keys"
_CHANGE_PERSON = """
    UPDATE people SET role = :role, groups = :groups, note = :note, disabled_at = :disabled_at,
        password_hash = :password_hash, generation = :generation
    WHERE login = :login
"""
_RETIRE_KEYS = """
    UPDATE person_keys SET retired_at = :now WHERE login = :login AND retired_at IS NULL
"""
_REHASH = """
    UPDATE people SET password_hash = :new WHERE login = :login AND password_hash = :old
"""


def can_sign(person: Person) -> bool:
    """Return whether a person may have a key that signs."""
    return person.disabled_at is None and person.role in APPROVING_ROLES


class PeopleSql(GrantSql):
    """The statements that read and change people and their keys."""

    def get_person(self, login: str) -> Person | None:
        """Return a person."""
        rows = self._run_query(f"{_SELECT_PEOPLE} WHERE login = :login", {"login": login})
        return Person(*rows[0]) if rows else None

    def find_oidc_person(self, issuer: str, subject: str) -> Person | None:
        """Return the person whom an identity provider knows by a subject."""
        query = f"{_SELECT_PEOPLE} WHERE issuer = :issuer AND oidc_subject = :subject"
        rows = self._run_query(query, {"issuer": issuer, "subject": subject})
        return Person(*rows[0]) if rows else None

    def list_people(self, tenant: str | None = None) -> list[Person]:
        """Return people (of a tenant), by login."""
        query = f"""
            {_SELECT_PEOPLE} WHERE CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant ORDER BY login
        """
        return [Person(*row) for row in self._run_query(query, {"tenant": tenant})]

    def add_person(self, person: Person, *, by: str, reason: str, now: str) -> None:
        """Store a new person.

        Raises:
            InputError: The login is taken, or it is not said who adds the person and why.
        """
        author = EventAuthor.check(by, reason, now)
        with self._open_write() as execute:
            head = self._lock_head(execute, _event_tenant(person))
            if lock_person(execute, person.login, self.dialect.for_update) is not None:
                raise InputError(f"there is a person `{person.login}` already", where="login")
            execute(insert_statement("people", Person._fields), person._asdict())
            what = {"login": person.login, "role": person.role, "groups": person.groups.split()}
            self._append(execute, head, PERSON_ADDED, what, author)

    def change_person(
        self, login: str, change: PersonChange, *, by: str, reason: str, now: str
    ) -> Person:
        """Change a person and return them as they are then.

        A person who is disabled, or gets another role or password, is logged out. The key of a
        person who may no longer sign is retired.

        Raises:
            InputError: There is no such person, or it is not said who changes them and why.
        """
        author = EventAuthor.check(by, reason, now)
        found = self.get_person(login)
        if found is None:
            raise InputError(f"there is no person `{login}`", where="login")
        with self._open_write() as execute:
            # A person never changes the tenant, so this is the chain of the row below.
            head = self._lock_head(execute, _event_tenant(found))
            before = lock_person(execute, login, self.dialect.for_update)
            if before is None:
                raise InputError(f"there is no person `{login}`", where="login")
            after = _apply_change(before, change, now)
            names = [
                name for name in Person._fields if getattr(after, name) != getattr(before, name)
            ]
            if not names:
                return before
            # INVARIANT: a session never lets in longer than its person does.
            execute(_CHANGE_PERSON, after._asdict())
            if after.generation != before.generation:
                execute("DELETE FROM sessions WHERE person = :login", {"login": login})
            what = _describe_change(after, names)
            row = self._append(execute, head, PERSON_CHANGED, what, author)
            if not can_sign(after):
                query = f"{_SELECT_PERSON_KEYS} WHERE login = :login AND retired_at IS NULL"
                keys = [PersonKey(*one) for one in execute(query, {"login": login}).fetchall()]
                # INVARIANT: a retired person's key lifts nothing.
                execute(_RETIRE_KEYS, {"login": login, "now": now})
                if keys:
                    ids = {"login": login, "keys": [key.key_id for key in keys]}
                    self._append(execute, row.head, PERSON_KEY_RETIRED, ids, author)
            return after

    def rehash_password(self, login: str, old: str, new: str) -> None:
        """Store the same password under a stronger hash, unless it was changed meanwhile."""
        with self._open_write() as execute:
            execute(_REHASH, {"login": login, "old": old, "new": new})

    # -- keys ------------------------------------------------------------------------------

    def list_person_keys(self, login: str) -> list[PersonKey]:
        """Return the keys of a person, oldest first."""
        query = f"{_SELECT_PERSON_KEYS} WHERE login = :login ORDER BY created_at, key_id"
        return [PersonKey(*row) for row in self._run_query(query, {"login": login})]

    def find_person_keys(self, key_ids: Collection[str]) -> list[PersonKey]:
        """Return the keys with these ids, retired ones included."""
        among, values = name_values(key_ids)
        query = f"{_SELECT_PERSON_KEYS} WHERE key_id IN ({among})"
        return [PersonKey(*row) for row in self._run_query(query, values, bounded=True)]

    def add_person_key(self, key: PersonKey, *, replace: bool = False) -> PersonKey | None:
        """Store a key of a person, and return the key that counts; None if they may not sign.

        A person has one key at a time: if there is another one, it is returned instead, or with
        `replace` retired if it has another issuer.
        """
        with self._open_write() as execute:
            head = self._lock_head(execute, key.tenant or DEFAULT_TENANT)
            person = lock_person(execute, key.login, self.dialect.for_update)
            if person is None or not can_sign(person):
                return None
            query = f"{_SELECT_PERSON_KEYS} WHERE login = :login AND retired_at IS NULL"
            rows = execute(query, {"login": key.login}).fetchall()
            # Another process may have replaced it already.
            if rows and (not replace or PersonKey(*rows[0]).issuer == key.issuer):
                return PersonKey(*rows[0])
            if rows:
                execute(_RETIRE_KEYS, {"login": key.login, "now": key.created_at})
                author = EventAuthor("demur", "the service key was replaced", key.created_at)
                ids = {"login": key.login, "keys": [PersonKey(*row).key_id for row in rows]}
                self._append(execute, head, PERSON_KEY_RETIRED, ids, author)
            execute(insert_statement("person_keys", PersonKey._fields), key._asdict())
            return key


def _event_tenant(person: Person) -> str:
    return person.tenant or DEFAULT_TENANT


def lock_person(execute: Execute, login: str, for_update: str) -> Person | None:
    """Return a person whom nobody else can change before this write ends."""
    query = f"{_SELECT_PEOPLE} WHERE login = :login {for_update}"
    row = execute(query, {"login": login}).fetchone()
    return None if row is None else Person(*row)


def _apply_change(person: Person, change: PersonChange, now: str) -> Person:
    new = {
        name: value
        for name, value in change._asdict().items()
        if value is not None and name != "disabled"
    }
    if change.disabled is not None:
        new["disabled_at"] = (person.disabled_at or now) if change.disabled else None
    after = person._replace(**new)
    ends = ("role", "password_hash", "disabled_at")
    if any(getattr(after, name) != getattr(person, name) for name in ends):
        after = after._replace(generation=person.generation + 1)
    return after


def _describe_change(person: Person, names: Collection[str]) -> Mapping[str, Any]:
    """Return what an event says of a change; of a password only that it changed."""
    shown: dict[str, Any] = {
        "role": person.role,
        "groups": person.groups.split(),
        "disabled_at": person.disabled_at,
    }
    changed = sorted("password" if name == "password_hash" else name for name in names)
    what = {name: value for name, value in shown.items() if name in names}
    return {
        "login": person.login,
        "changed": [name for name in changed if name != "generation"],
        **what,
    }
