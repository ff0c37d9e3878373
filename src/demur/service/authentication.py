"""API keys, people, roles, and the authenticator that maps a key or a session to its caller.

A key is 256 random bits, so its plain SHA-256 is as hard to undo as the key is to guess. No
slower hash is needed, and the store keeps only that digest.

The authenticator caches all keys for a short time. A flood of made-up keys does not become a
flood of queries: every caller whose key is not cached waits for the same next reading.
"""

import asyncio
import hashlib
import logging
import re
import time
from base64 import b32encode
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from enum import StrEnum
from math import inf
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.errors import InputError
from demur.gate.clock import Clock, Entropy, format_timestamp, system_clock, system_entropy
from demur.grants.person_keys import PERSON_PREFIX
from demur.model.request import MAX_NAME_LENGTH, Subject
from demur.service.problem import ProblemError, forbidden
from demur.store.people_tables import Person
from demur.store.rows import KEY_EXPIRY_NOTICE, ApiKey, LoginSession
from demur.store.store import Store

T = TypeVar("T")
_log = logging.getLogger("demur.service")
# Read the keys five times a second at most.
KEY_READ_PAUSE_S = 0.2


class KeyCache(Generic[T]):
    """All keys by digest, cached for `memory_s`. Safe to share between threads.

    `load` returns all keys, and may wait for the store.
    """

    def __init__(
        self,
        load: Callable[[], Mapping[str, T]],
        *,
        memory_s: float,
        pause_s: float = KEY_READ_PAUSE_S,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._load = load
        self._memory_s = memory_s
        self._pause_s = pause_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._keys: Mapping[str, T] = {}
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._expired_at = -inf
        self._lock = Lock()
        self._reading: asyncio.Future[None] | None = None
        # A thread of its own, so that looking up a key never waits behind other work.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="demur-keys")

    def get_cached(self, digest: str) -> T | None:
        """Return a cached key, if the cache is current."""
        return self._keys.get(digest) if self.is_current else None

    def is_cached_empty(self) -> bool:
        """Return whether the cache is current and empty."""
        return self.is_current and not self._keys

    async def look_up(self, digest: str) -> T | None:
        """Return a key as stored now; concurrent calls share one reading."""
        await self._refresh()
        return self._keys.get(digest)

    async def is_empty(self) -> bool:
        """Return whether the store holds no key now; concurrent calls share one reading."""
        await self._refresh()
        return not self._keys

    def close(self) -> None:
        """Stop reading keys."""
        self._thread.shutdown(cancel_futures=True)

    def expire(self) -> None:
        """Have the next caller read the keys again; a reading under way no longer counts."""
        self._expired_at = self._monotonic()

    @property
    def is_current(self) -> bool:
        """Whether the keys were read lately."""
        read_at = self._read_at
        if read_at is None or read_at < self._expired_at:
            return False
        return self._monotonic() < read_at + self._memory_s

    async def _refresh(self) -> None:
        asked_at = self._monotonic()
        while not self._read_since(asked_at):
            # A reading that has ended but is not cleared yet would be awaited in a busy loop.
            if self._reading is None or self._reading.done():
                loop = asyncio.get_running_loop()
                self._reading = loop.run_in_executor(self._thread, self._read_keys, asked_at)
                self._reading.add_done_callback(self._finish_reading)
            # A caller that is cancelled must not cancel the reading for the others.
            await asyncio.shield(self._reading)

    def _finish_reading(self, reading: "asyncio.Future[None]") -> None:
        if self._reading is reading:
            self._reading = None
        if not reading.cancelled():
            # Waiting callers get the exception; retrieve it here in case none is left.
            reading.exception()

    def _read_since(self, asked_at: float) -> bool:
        return self._read_at is not None and self._read_at >= asked_at

    def _read_keys(self, asked_at: float) -> None:
        with self._lock:
            if self._read_since(asked_at):
                return
            if self._tried_at is not None:
                early = self._tried_at + self._pause_s - self._monotonic()
                if early > 0:
                    self._sleep(early)
            self._tried_at = began = self._monotonic()
            self._keys = self._load()
            self._read_at = began


_PREFIX = "demur"
_ID_BYTES = 5
_SECRET_BYTES = 32
_MAX_NOTE_LENGTH = 200
# Binds a key to every subject.
ANY_SUBJECT = "*"
_TOKEN_PATTERN = re.compile(r"demur_[a-z2-7]{8}_[a-z2-7]{52}", re.ASCII)
# No key has this form, so that neither passes for the other.
_SESSION_PREFIX = "session_"
_SESSION_PATTERN = re.compile(r"session_[a-z2-7]{52}", re.ASCII)


class Role(StrEnum):
    """The roles of a caller. `admin` includes the others, and creates and revokes keys.

    Only a person has the role `approve`: keys are for machines.
    """

    DECIDE = "decide"
    READ = "read"
    LABEL = "label"
    APPROVE = "approve"
    ADMIN = "admin"


# The roles that a key may have.
KEY_ROLES = tuple(role for role in Role if role is not Role.APPROVE)
# The roles of people, and what each may do.
PERSON_ROLES: Mapping[str, frozenset[Role]] = {
    "reader": frozenset({Role.READ}),
    "reviewer": frozenset({Role.READ, Role.LABEL}),
    "approver": frozenset({Role.READ, Role.LABEL, Role.APPROVE}),
    "admin": frozenset(Role),
}


class Principal(NamedTuple):
    """The caller. `tenant` is None for a key of all tenants: then a request may name any.

    `subjects` are those that the caller is bound to, None for any. With none, it may name any
    subject, and grants do not count for it. `person` is the login of a person who is logged in, and
    `groups` are those of this person.
    """

    name: str
    tenant: str | None
    roles: frozenset[Role]
    subjects: frozenset[str] | None = None
    person: str | None = None
    groups: frozenset[str] = frozenset()

    @property
    def kind(self) -> str:
        """What the caller is, in words: a key or a person."""
        return "key" if self.person is None else "person"

    def has_role(self, role: Role) -> bool:
        """Return whether the caller has a role."""
        # INVARIANT: no key approves, only a person does.
        if role is Role.APPROVE and self.person is None:
            return False
        return role in self.roles or Role.ADMIN in self.roles

    def require_subjects(self, *subjects: Any) -> None:
        """Refuse subjects of a request that the caller's key is not bound to.

        Raises:
            ProblemError: The key is bound to others.
        """
        for subject in subjects if self.subjects else ():
            try:
                name = msgspec.convert(subject, Subject | None)
            except msgspec.ValidationError:
                # The gate says what is wrong with it.
                continue
            if name is not None and name.name not in {None, *(self.subjects or ())}:
                raise forbidden(f"this {self.kind} is bound to other subjects")


# Any caller on a loopback address, while there is no key. Not an admin: only a user who can
# write to the store creates keys, not every program on the machine.
LOCAL = Principal("local", None, frozenset(Role) - {Role.ADMIN})
# A caller without a key, on a route that needs none. No tenant has an empty name.
NOBODY = Principal("nobody", "", frozenset())


class NewKey(NamedTuple):
    """A new key. `token` is shown once and stored nowhere."""

    token: str
    key: ApiKey


def make_key(
    tenant: str,
    roles: Iterable[str],
    *,
    note: str = "",
    lifetime: timedelta | None = None,
    subjects: Iterable[str] = (),
    clock: Clock = system_clock,
    entropy: Entropy = system_entropy,
) -> NewKey:
    """Return a new key for a tenant; an empty name is for all of them.

    `subjects` bind the key: its holder is authenticated as these, so that grants to them count. The
    subject `*` is any: only for a program that authenticates subjects by itself.

    Raises:
        InputError: A role is unknown or missing, or a text is invalid.
    """
    roles_help = f"one of {', '.join(KEY_ROLES)}"
    try:
        chosen = sorted({Role(role) for role in roles})
    except ValueError as error:
        raise InputError(f"unknown role: {error}", where="roles", help=roles_help) from None
    if Role.APPROVE in chosen:
        problem = "a key cannot approve: only a person who is logged in can"
        raise InputError(problem, where="roles", help=roles_help)
    if not chosen:
        raise InputError("a key needs a role", where="roles", help=roles_help)
    _check_text("tenant", tenant, MAX_NAME_LENGTH)
    _check_text("note", note, _MAX_NOTE_LENGTH)
    bound = sorted(set(subjects))
    for subject in bound:
        _check_text("subjects", subject, MAX_NAME_LENGTH)
        if not subject.strip():
            raise InputError("a subject must not be empty", where="subjects")
    now = clock()
    try:
        expires_at = None if lifetime is None else format_timestamp(now + lifetime)
    except OverflowError:
        raise InputError("the lifetime of the key is too long", where="days") from None
    key_id = _encode_base32(entropy(_ID_BYTES))
    token = f"{_PREFIX}_{key_id}_{_encode_base32(entropy(_SECRET_BYTES))}"
    key = ApiKey(
        key_id=key_id,
        tenant=tenant,
        roles=" ".join(chosen),
        digest=digest_of(token),
        created_at=format_timestamp(now),
        expires_at=expires_at,
        revoked_at=None,
        note=note,
        subjects="\n".join(bound),
    )
    return NewKey(token, key)


def has_valid_key(store: Store | None, clock: Clock = system_clock) -> bool:
    """Return whether a store holds a key that is neither revoked nor expired.

    Raises:
        StorageError: The store cannot be read.
    """
    keys = () if store is None else store.list_keys()
    now = format_timestamp(clock())
    return any(key.revoked_at is None and (key.expires_at or "9999") > now for key in keys)


def has_active_person(store: Store | None) -> bool:
    """Return whether a store holds a person who may log in.

    Raises:
        StorageError: The store cannot be read.
    """
    people = () if store is None else store.list_people()
    return any(person.disabled_at is None for person in people)


def digest_of(token: str) -> str:
    """Return the digest under which a key is stored."""
    return f"sha256:{hashlib.sha256(token.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _encode_base32(raw: bytes) -> str:
    return b32encode(raw).decode().rstrip("=").lower()


def _check_text(name: str, text: str, max_length: int) -> None:
    if len(text) > max_length:
        raise InputError(f"at most {max_length} characters, not {len(text)}", where=name)
    if not text.isprintable():
        raise InputError("it contains an unprintable character", where=name)


class LoginWays(NamedTuple):
    """How to log in: whether there are keys and people, and whether nobody needs to yet."""

    keys: bool
    people: bool
    is_open: bool


class _CachedKey(NamedTuple):
    """A cached key or session: its caller, None if it was revoked, and when it expires."""

    caller: Principal | None
    expires_at: str | None


class Authenticator:
    """Maps keys to callers. Safe to share between threads.

    Keys are cached for `memory_s`, so a revoked key works that much longer at most.
    `allow_local` admits loopback calls without a key as long as no key was ever created. The
    first key ends that at the next reading of the keys.
    """

    def __init__(
        self,
        store: Store | None,
        *,
        allow_local: bool,
        memory_s: float = 2.0,
        clock: Clock = system_clock,
        entropy: Entropy = system_entropy,
    ) -> None:
        self._store = store
        self._entropy = entropy
        # Keys whose expiry was logged.
        self._warned: set[str] = set()
        self.allow_local = allow_local
        self._clock = clock
        self._cache = KeyCache(self._load_keys, memory_s=memory_s)
        # Whether there are keys and people, as of the last reading.
        self._has_keys = self._has_people = False

    def cached_principal(self, token: str | None, *, is_local: bool = True) -> Principal | None:
        """Return the caller if the cache knows it, without a look into the store; else None.

        `is_local` says that the call came directly from this machine.
        """
        if token is None:
            is_open = is_local and self.allow_local and self._cache.is_cached_empty()
            return LOCAL if is_open else None
        if token.startswith(_SESSION_PREFIX):
            return None
        return self._valid_principal(self._cache.get_cached(digest_of(token)))

    async def authenticate(self, token: str | None, *, is_local: bool = True) -> Principal:
        """Return the caller that a key belongs to. May wait for the store; the event loop runs on.

        Raises:
            ProblemError: The key is missing, unknown, expired or revoked.
            StorageError: The store cannot be read.
        """
        caller = self.cached_principal(token, is_local=is_local)
        if caller is not None:
            return caller
        if token is None and is_local and self.allow_local and await self._cache.is_empty():
            return LOCAL
        if token is None:
            raise _unauthorized_error("an API key is required")
        # A text that cannot be a key costs no look-up.
        if _TOKEN_PATTERN.fullmatch(token):
            caller = self._valid_principal(await self._cache.look_up(digest_of(token)))
        if caller is None:
            raise _unauthorized_error("this key is unknown, expired or revoked")
        return caller

    def open_session(self, caller: Principal, lifetime: timedelta, *, generation: int = 0) -> str:
        """Store a login, and return its secret for the cookie. May wait for the store.

        The session of a person counts as long as the person has that `generation`.

        Raises:
            StorageError: It could not be stored.
        """
        # INVARIANT: a session never lets in longer than its key does.
        assert self._store is not None
        secret = f"{_SESSION_PREFIX}{_encode_base32(self._entropy(_SECRET_BYTES))}"
        now = self._clock()
        session = LoginSession(
            digest=digest_of(secret),
            key_id=caller.name,
            created_at=format_timestamp(now),
            expires_at=format_timestamp(now + lifetime),
            person=caller.person or "",
            generation=generation,
        )
        self._store.add_session(session)
        return secret

    def close_session(self, secret: str) -> None:
        """End a login, here at once and in other processes within `memory_s`.

        Raises:
            StorageError: It could not be deleted.
        """
        if self._store is not None:
            self._store.delete_session(digest_of(secret))
            self._cache.expire()

    def cached_session(self, secret: str) -> Principal | None:
        """Return the caller of a session if the cache knows it."""
        if not _SESSION_PATTERN.fullmatch(secret):
            return None
        return self._valid_principal(self._cache.get_cached(digest_of(secret)))

    async def find_session(self, secret: str) -> Principal | None:
        """Return the caller of a session, or None. May wait for the store.

        Raises:
            StorageError: The store cannot be read.
        """
        if not _SESSION_PATTERN.fullmatch(secret):
            return None
        return self._valid_principal(await self._cache.look_up(digest_of(secret)))

    async def find_ways(self) -> LoginWays:
        """Return how callers can log in. May wait for the store.

        Raises:
            StorageError: The store cannot be read.
        """
        if not self._cache.is_current:
            await self._cache.is_empty()
        is_open = self.allow_local and not self._has_keys and not self._has_people
        return LoginWays(self._has_keys, self._has_people, is_open)

    def expire(self) -> None:
        """Have the next caller read keys, people and sessions again."""
        self._cache.expire()

    def close(self) -> None:
        """Stop reading keys from the store."""
        self._cache.close()

    def _load_keys(self) -> dict[str, _CachedKey]:
        if self._store is None:
            return {}
        cached = self._list_keys(self._store.list_keys())
        by_id = {entry.caller.name: entry for entry in cached.values() if entry.caller is not None}
        people = {person.login: person for person in self._store.list_people()}
        # The first person ends open local access, as the first key does. No digest is like this.
        self._has_keys, self._has_people = bool(cached), bool(people)
        cached |= {f"{PERSON_PREFIX}{login}": _CachedKey(None, None) for login in people}
        for session in self._store.list_sessions():
            if session.person:
                caller = _session_person(session, people.get(session.person))
                cached[session.digest] = _CachedKey(caller, session.expires_at)
                continue
            entry = by_id.get(session.key_id)
            if entry is not None and entry.caller is not None:
                ends = min(filter(None, (session.expires_at, entry.expires_at)))
                cached[session.digest] = _CachedKey(_limit_roles(entry.caller), ends)
        return cached

    def _list_keys(self, keys: Iterable[ApiKey]) -> dict[str, _CachedKey]:
        cached = {}
        soon = format_timestamp(self._clock() + KEY_EXPIRY_NOTICE)
        for key in keys:
            # Ignore roles that a newer version of demur may have stored.
            roles = frozenset(role for role in Role if role in key.roles.split())
            subjects = frozenset(key.subjects.splitlines())
            bound = None if ANY_SUBJECT in subjects else subjects
            caller = Principal(key.key_id, key.tenant or None, roles, bound)
            # Revoked keys stay in the cache: once a key was created, calls without one are refused.
            cached[key.digest] = _CachedKey(None if key.revoked_at else caller, key.expires_at)
            self._warn_of_expiry(key, soon)
        return cached

    def _warn_of_expiry(self, key: ApiKey, soon: str) -> None:
        expires_at = key.expires_at
        if key.revoked_at or expires_at is None or expires_at > soon or key.key_id in self._warned:
            return
        self._warned.add(key.key_id)
        _log.warning("API key %s (%s) expires at %s", key.key_id, key.tenant or "all", expires_at)

    def _valid_principal(self, entry: _CachedKey | None) -> Principal | None:
        if entry is None:
            return None
        expires_at = entry.expires_at
        expired = expires_at is not None and expires_at <= format_timestamp(self._clock())
        return None if expired else entry.caller


def _session_person(session: LoginSession, person: Person | None) -> Principal | None:
    """Return the caller of a person's session, or None if it no longer counts."""
    # INVARIANT: a session never lets in longer than its person does.
    if person is None or person.disabled_at or person.generation != session.generation:
        return None
    return person_principal(person)


def person_principal(person: Person) -> Principal:
    """Return a person as a caller, who may name no other subject."""
    # A role that a newer version of demur may have stored has no power.
    roles = PERSON_ROLES.get(person.role, frozenset())
    return Principal(
        name=f"{PERSON_PREFIX}{person.login}",
        tenant=person.tenant or None,
        roles=roles,
        # INVARIANT: a person asks for nobody else, so nobody approves what they asked for.
        subjects=frozenset({f"user:{person.login}", f"person:{person.login}"}),
        person=person.login,
        groups=frozenset(person.groups.split()),
    )


def _limit_roles(caller: Principal) -> Principal:
    """Return the caller in the dashboard, which only reads and labels."""
    roles = frozenset(role for role in (Role.READ, Role.LABEL) if caller.has_role(role))
    return caller._replace(roles=roles)


def _unauthorized_error(problem: str) -> ProblemError:
    headers = {"www-authenticate": 'Bearer realm="demur"'}
    return ProblemError(401, ReasonCode.AUTHORIZATION_MISSING, problem, headers=headers)
