"""Who calls, and what they may do: keys, roles, and the caller on this very machine.

A key is 256 random bits, so its plain SHA-256 is as hard to undo as the key is to guess;
nothing slower is needed, and only that digest is stored.
"""

import hashlib
import re
from base64 import b32encode
from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.errors import InputError
from demur.gate.asking import DEFAULT_TENANT
from demur.gate.clock import Clock, Entropy, system_clock, system_entropy, timestamp
from demur.model.request import LONGEST_NAME
from demur.service.key_book import KeyBook
from demur.service.problem import ProblemError
from demur.store.rows import ApiKey
from demur.store.store import Store

__all__ = ["LOCAL", "NOBODY", "Doorkeeper", "NewKey", "Principal", "Role", "digest_of", "make_key"]

_PREFIX = "demur"
_ID_BYTES = 5
_SECRET_BYTES = 32
_LONGEST_NOTE = 200
_TOKEN = re.compile(r"demur_[a-z2-7]{8}_[a-z2-7]{52}", re.ASCII)


class Role(StrEnum):
    """The roles of a key. `admin` includes the others, and creates and revokes keys."""

    DECIDE = "decide"
    READ = "read"
    LABEL = "label"
    ADMIN = "admin"


class Principal(NamedTuple):
    """The caller. `tenant` is None for a key of all tenants: then a request may name any."""

    name: str
    tenant: str | None
    roles: frozenset[Role]

    def may(self, role: Role) -> bool:
        """Return whether the caller has a role."""
        return role in self.roles or Role.ADMIN in self.roles

    def sees(self, tenant: str) -> bool:
        """Return whether the caller may see a tenant's records."""
        return self.tenant is None or self.tenant == tenant

    @property
    def acts_for(self) -> str:
        """The tenant that the caller decides for, unless a request names another."""
        return DEFAULT_TENANT if self.tenant is None else self.tenant


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
    clock: Clock = system_clock,
    entropy: Entropy = system_entropy,
) -> NewKey:
    """Return a new key for a tenant; an empty name is for all of them.

    Raises:
        InputError: A role is unknown or missing, or a text is invalid.
    """
    known = ", ".join(Role)
    try:
        wanted = sorted({Role(role) for role in roles})
    except ValueError as error:
        raise InputError(f"unknown role: {error}", where="roles", help=f"one of {known}") from None
    if not wanted:
        raise InputError("a key needs a role", where="roles", help=f"one of {known}")
    _check_text("tenant", tenant, LONGEST_NAME)
    _check_text("note", note, _LONGEST_NOTE)
    now = clock()
    try:
        expires_at = None if lifetime is None else timestamp(now + lifetime)
    except OverflowError:
        raise InputError("the lifetime of the key is too long", where="days") from None
    key_id = _text(entropy(_ID_BYTES))
    token = f"{_PREFIX}_{key_id}_{_text(entropy(_SECRET_BYTES))}"
    key = ApiKey(
        key_id=key_id,
        tenant=tenant,
        roles=" ".join(wanted),
        digest=digest_of(token),
        created_at=timestamp(now),
        expires_at=expires_at,
        revoked_at=None,
        note=note,
    )
    return NewKey(token, key)


def digest_of(token: str) -> str:
    """Return the digest under which a key is stored."""
    return f"sha256:{hashlib.sha256(token.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _text(raw: bytes) -> str:
    return b32encode(raw).decode().rstrip("=").lower()


def _check_text(name: str, text: str, longest: int) -> None:
    if len(text) > longest:
        raise InputError(f"at most {longest} characters, not {len(text)}", where=name)
    if not text.isprintable():
        raise InputError("it contains an unprintable character", where=name)


class _Entry(NamedTuple):
    """A cached key: its caller, None if it was revoked, and when it expires."""

    caller: Principal | None
    expires_at: str | None


class Doorkeeper:
    """Maps keys to callers. Safe to share between threads.

    Keys are cached for `memory_s`, so a revoked key works that much longer at most.
    `allow_local` admits loopback calls without a key as long as no key was ever created. The
    first key ends that at the next reading of the keys.
    """

    def __init__(
        self,
        store: Store | None,
        *,
        open_to_local: bool,
        memory_s: float = 2.0,
        clock: Clock = system_clock,
    ) -> None:
        self._store = store
        self.open_to_local = open_to_local
        self._clock = clock
        self._book = KeyBook(self._entries, memory_s=memory_s)

    def remembered(self, token: str | None, *, here: bool = True) -> Principal | None:
        """Return the caller if the cache knows it, without a look into the store; else None.

        `is_local` says that the call came directly from this machine.
        """
        if token is None:
            return LOCAL if here and self.open_to_local and self._book.known_empty() else None
        return self._valid(self._book.known(digest_of(token)))

    async def admit(self, token: str | None, *, here: bool = True) -> Principal:
        """Return the caller that a key belongs to. May wait for the store; the event loop runs on.

        Raises:
            ProblemError: The key is missing, unknown, expired or revoked.
            StorageError: The store cannot be read.
        """
        caller = self.remembered(token, here=here)
        if caller is not None:
            return caller
        if token is None and here and self.open_to_local and await self._book.is_empty():
            return LOCAL
        found = self._valid(await self._book.look_up(digest_of(_possible(token))))
        if found is None:
            raise _unknown()
        return found

    def close(self) -> None:
        """Stop reading keys from the store."""
        self._book.close()

    def _entries(self) -> dict[str, _Entry]:
        keys = [] if self._store is None else self._store.keys()
        # Revoked keys stay in the cache: once a key was created, calls without one are refused.
        return {
            key.digest: _Entry(None if key.revoked_at else _principal(key), key.expires_at)
            for key in keys
        }

    def _valid(self, entry: _Entry | None) -> Principal | None:
        if entry is None:
            return None
        expires_at = entry.expires_at
        expired = expires_at is not None and expires_at <= timestamp(self._clock())
        return None if expired else entry.caller


def _possible(token: str | None) -> str:
    """Return the token if it has the form of a key; others are refused without a look-up."""
    if token is None:
        raise ProblemError(
            401, ReasonCode.AUTHORIZATION_MISSING, "an API key is required", headers=_CHALLENGE
        )
    if _TOKEN.fullmatch(token) is None:
        raise _unknown()
    return token


_CHALLENGE = {"www-authenticate": 'Bearer realm="demur"'}


def _unknown() -> ProblemError:
    return ProblemError(
        401,
        ReasonCode.AUTHORIZATION_MISSING,
        "this key is unknown, expired or revoked",
        headers=_CHALLENGE,
    )


def _principal(key: ApiKey) -> Principal:
    known = set(Role)
    # Ignore roles that a newer version of demur may have stored.
    roles = frozenset(Role(role) for role in key.roles.split() if role in known)
    return Principal(key.key_id, key.tenant or None, roles)
