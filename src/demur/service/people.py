"""People who log in: their passwords, and how they are added and changed.

A password is hashed by Argon2id, with a salt, so that guessing takes memory and time. A login with
an unknown name takes the same work as one with a wrong password.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from importlib import import_module
from typing import Any
from unicodedata import normalize

from demur.errors import InputError, MissingExtraError
from demur.model.request import MAX_NAME_LENGTH
from demur.service.authentication import PERSON_ROLES
from demur.store.people_tables import Person, PersonChange
from demur.store.store import Store

MIN_PASSWORD_LENGTH = 12
MAX_PASSWORD_LENGTH = 1000
MAX_NOTE_LENGTH = 200
MAX_LOGIN_LENGTH = 100
LOGIN_PATTERN = r"^[a-z0-9][a-z0-9._@+-]*$"
_LOGIN = re.compile(LOGIN_PATTERN, re.ASCII)
_MAX_GROUPS = 50
_PASSWORD_HELP = f"{MIN_PASSWORD_LENGTH} to {MAX_PASSWORD_LENGTH} characters; a sentence is good"


class Passwords:
    """Hashes and checks passwords. It needs `argon2-cffi`. Safe to share between threads."""

    def __init__(self, **parameters: int) -> None:
        self._parameters = parameters

    @cached_property
    def _hasher(self) -> Any:
        try:
            return import_module("argon2").PasswordHasher(**self._parameters)
        except ImportError as error:
            problem = "passwords need the `argon2-cffi` package"
            raise MissingExtraError(problem, help="pip install 'demur[people]'") from error

    @cached_property
    def _unknown(self) -> str:
        """The hash of no password, to be checked where there is no person."""
        return str(self._hasher.hash("nobody has this password"))

    def hash(self, password: str) -> str:
        """Return the hash of a password, with its salt and parameters.

        Raises:
            InputError: The password is too short or too long.
            MissingExtraError: `demur[people]` is not installed.
        """
        text = normalize("NFC", password)
        if not MIN_PASSWORD_LENGTH <= len(text) <= MAX_PASSWORD_LENGTH or "\0" in text:
            problem = f"a password has at least {MIN_PASSWORD_LENGTH} characters"
            raise InputError(problem, where="password", help=_PASSWORD_HELP)
        return str(self._hasher.hash(text.encode("utf-8", "surrogatepass")))

    def verify(self, stored: str | None, password: str) -> bool:
        """Return whether a password has a stored hash; without one, after the same work."""
        text = normalize("NFC", password[:MAX_PASSWORD_LENGTH])
        errors = import_module("argon2.exceptions") if self._hasher else None
        known = stored is not None
        try:
            self._hasher.verify(
                self._unknown if stored is None else stored, text.encode("utf-8", "surrogatepass")
            )
        except (errors.VerificationError, errors.InvalidHashError):  # type: ignore[union-attr]
            return False
        # INVARIANT: nobody logs in without a password of their own.
        return known

    def is_outdated(self, stored: str) -> bool:
        """Return whether a hash was made with other parameters than those of today."""
        return bool(self._hasher.check_needs_rehash(stored))


def log_in_person(store: Store, passwords: Passwords, login: str, password: str) -> Person | None:
    """Return the person with this login and password, or None. It waits for the store.

    A hash with other parameters than those of today is replaced.

    Raises:
        StorageError: The store does not answer.
        MissingExtraError: `demur[people]` is not installed.
    """
    person = find_person(store, login)
    stored = None if person is None else person.password_hash
    if not passwords.verify(stored, password) or person is None or stored is None:
        return None
    # Only after the work, so that a disabled person takes as long as any other.
    if person.disabled_at is not None:
        return None
    if passwords.is_outdated(stored) and len(password) >= MIN_PASSWORD_LENGTH:
        store.rehash_password(person.login, stored, passwords.hash(password))
    return person


def find_person(store: Store, login: str) -> Person | None:
    """Return the person with a login in any case, or None; it may be any text.

    Raises:
        StorageError: The store does not answer.
    """
    folded = fold_login(login)
    return store.get_person(folded) if _LOGIN.fullmatch(folded) else None


def fold_login(login: str) -> str:
    """Return a login as it is stored: in lower case, without outer spaces."""
    return normalize("NFC", login).strip().lower()


def make_person(
    login: str,
    role: str,
    *,
    tenant: str,
    now: str,
    groups: Iterable[str] = (),
    password_hash: str | None = None,
    identity: tuple[str, str] | None = None,
    note: str = "",
) -> Person:
    """Return a new person; an empty tenant is for all of them.

    `identity` is the issuer and the subject by which an identity provider knows the person.

    Raises:
        InputError: The login, the role or a text is invalid.
    """
    folded = fold_login(login)
    if not _LOGIN.fullmatch(folded) or len(folded) > MAX_LOGIN_LENGTH:
        problem = f"`{login[:MAX_LOGIN_LENGTH]}` is no login"
        help_text = "letters from a to z, digits and . _ @ + -, like mary or mary@example.org"
        raise InputError(problem, where="login", help=help_text)
    check_text("tenant", tenant, MAX_NAME_LENGTH)
    check_text("note", note, MAX_NOTE_LENGTH)
    issuer, subject = identity or (None, None)
    return Person(
        login=folded,
        tenant=tenant,
        role=check_role(role),
        groups=join_groups(groups),
        password_hash=password_hash,
        issuer=issuer,
        oidc_subject=subject,
        created_at=now,
        note=note,
    )


def make_change(
    *,
    role: str | None = None,
    groups: Iterable[str] | None = None,
    note: str | None = None,
    password_hash: str | None = None,
    disabled: bool | None = None,
) -> PersonChange:
    """Return a change of a person, checked.

    Raises:
        InputError: A value is invalid.
    """
    if note is not None:
        check_text("note", note, MAX_NOTE_LENGTH)
    return PersonChange(
        role=None if role is None else check_role(role),
        groups=None if groups is None else join_groups(groups),
        note=note,
        password_hash=password_hash,
        disabled=disabled,
    )


def change_password(
    store: Store, passwords: Passwords, login: str, password: str, *, by: str, now: str
) -> Person:
    """Give a person another password, which ends their sessions.

    Raises:
        InputError: There is no such person, they log in elsewhere, or the password is too short.
    """
    person = store.get_person(login)
    if person is not None and person.oidc_subject is not None:
        problem = f"`{login}` has no password here, but logs in at {person.issuer}"
        raise InputError(problem, where="login", help="change the password there")
    change = make_change(password_hash=passwords.hash(password))
    return store.change_person(login, change, by=by, reason="another password", now=now)


def check_role(role: str) -> str:
    """Return a role of people.

    Raises:
        InputError: There is no such role.
    """
    if role not in PERSON_ROLES:
        help_text = f"one of {', '.join(PERSON_ROLES)}"
        raise InputError(f"unknown role `{role[:40]}`", where="role", help=help_text)
    return role


def join_groups(groups: Iterable[str]) -> str:
    """Return groups as they are stored, by name.

    Raises:
        InputError: A name is invalid, or there are too many.
    """
    names = sorted(set(groups))
    for name in names:
        if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable() or " " in name:
            problem = f"`{name[:40]}` is no group"
            raise InputError(problem, where="groups", help="a group is one word, like finance")
    if len(names) > _MAX_GROUPS:
        raise InputError(f"a person has at most {_MAX_GROUPS} groups", where="groups")
    return " ".join(names)


def check_text(name: str, text: str, max_length: int) -> None:
    """Refuse a text that is too long or not one printable line.

    Raises:
        InputError: It is.
    """
    if len(text) > max_length:
        raise InputError(f"at most {max_length} characters, not {len(text)}", where=name)
    if not text.isprintable():
        raise InputError("it contains an unprintable character", where=name)
