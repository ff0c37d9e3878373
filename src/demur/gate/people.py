"""People in a gate: their settings, the keys that sign for them, and which of these count."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from demur.errors import GrantError, InputError
from demur.gate.approvals import concerns
from demur.gate.clock import Entropy, format_timestamp, system_entropy
from demur.gate.inputs import PreparedRequest
from demur.grants.keys import KEY_BYTES, KeyRing, SigningKey, TrustedKey, load_trusted_keys
from demur.grants.person_keys import PERSON_PREFIX, ServiceKey, is_certified
from demur.grants.resolution import GrantRejection, PersonKeys
from demur.listener import is_loopback
from demur.model.request import DEFAULT_TENANT
from demur.store.people_tables import Person, PersonKey, can_sign
from demur.store.store import Store

_NONCE_BYTES = 12
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
_Place = Annotated[str, msgspec.Meta(min_length=1, max_length=4096, pattern="^[^\\x00]*$")]


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[people.oidc]` part of the settings: the identity provider where people log in.

    `client_secret_env` names the environment variable with the secret of the client. `login_claim`
    is the claim of the ID token that becomes the login. The values of `role_claim` become a role
    by `roles`, those of `group_claim` become groups. The people belong to `tenant`; an empty one
    is all tenants.
    """

    issuer: _Text
    client_id: _Text
    client_secret_env: str = ""
    role_claim: _Text = "groups"
    roles: dict[_Text, Literal["reader", "reviewer", "approver", "admin"]]
    login_claim: _Text = "preferred_username"
    group_claim: str = ""
    tenant: str = DEFAULT_TENANT
    scopes: tuple[_Text, ...] = ("openid", "profile", "email")
    name: str = ""

    def __post_init__(self) -> None:
        address = urlsplit(self.issuer)
        is_secure = address.scheme == "https" or (
            address.scheme == "http" and is_loopback(address.hostname or "")
        )
        if not is_secure or address.query or address.fragment:
            raise ValueError(f"`issuer` is an https:// address, not `{self.issuer}`")


class PeopleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[people]` part of the settings.

    `key` is the file of the service key, which `demur people init` makes. `trusted` is a file of
    trusted issuers, for gates that cannot read that key. `oidc` is an identity provider.
    """

    key: _Place = "people.key"
    trusted: _Place | None = None
    oidc: OidcSettings | None = None


_NO_KEYS = PersonKeys()


def read_person_keys(store: Store, issuers: KeyRing, prepared: PreparedRequest) -> PersonKeys:
    """Return the keys of people that signed grants of a request, as the store has them now.

    Nothing is read without issuers, or without a grant that a person signed.

    Raises:
        StorageError: The store cannot be read.
    """
    ids = {grant.key_id for grant in prepared.grants if grant.key_id.startswith(PERSON_PREFIX)}
    if not ids or not issuers:
        return _NO_KEYS
    keys: dict[str, TrustedKey] = {}
    rejections: dict[str, GrantRejection] = {}
    for row in store.find_person_keys(ids):
        # INVARIANT: a retired person's key lifts nothing.
        if row.retired_at is not None:
            rejections[row.key_id] = GrantRejection.KEY_RETIRED
            continue
        # INVARIANT: a grant of a person lifts nothing of their own requests.
        if concerns(row.login, prepared.request.requester, prepared.redacted.request):
            rejections[row.key_id] = GrantRejection.OWN_REQUEST
            continue
        try:
            key = trusted_half(row)
            counts = is_certified(key, row.issuer, row.certificate, issuers)
        except GrantError:
            counts = False
        if counts:
            keys[row.key_id] = key
        else:
            rejections[row.key_id] = GrantRejection.KEY_NOT_CERTIFIED
    return PersonKeys(keys, rejections)


def trusted_half(row: PersonKey) -> TrustedKey:
    """Return the public half of a stored key.

    Raises:
        GrantError: The row holds no key.
    """
    try:
        return msgspec.convert(
            {
                "key_id": row.key_id,
                "holder": f"{PERSON_PREFIX}{row.login}",
                "algorithm": row.algorithm,
                "material": row.public_key,
                "tenants": [row.tenant] if row.tenant else [],
            },
            TrustedKey,
        )
    except msgspec.ValidationError as error:
        raise GrantError(f"not a key of a person: {error}", where=row.key_id) from error


def signing_key_of(
    store: Store,
    service_key: ServiceKey,
    login: str,
    now: datetime,
    *,
    entropy: Entropy = system_entropy,
) -> SigningKey:
    """Return the key with which the service signs for a person; it is made at its first use.

    A key that another service key sealed is replaced.

    Raises:
        InputError: The person may not approve.
        GrantError: The stored key was changed.
        StorageError: The store does not answer.
    """
    person = store.get_person(login)
    if person is None or not can_sign(person):
        raise _forbidden_error(login)
    rows = store.list_person_keys(login)
    active = next((row for row in reversed(rows) if row.retired_at is None), None)
    if active is None or active.issuer != service_key.issuer.key_id:
        made = _make_person_key(service_key, person, len(rows) + 1, now, entropy)
        # Another process may have stored one meanwhile.
        active = store.add_person_key(made, replace=active is not None)
    if active is None:
        raise _forbidden_error(login)
    return service_key.unseal(trusted_half(active), active.sealed_secret)


def _make_person_key(
    service_key: ServiceKey, person: Person, number: int, now: datetime, entropy: Entropy
) -> PersonKey:
    key = SigningKey.from_randomness(
        entropy(KEY_BYTES),
        key_id=f"{PERSON_PREFIX}{person.login}:{number}",
        holder=f"{PERSON_PREFIX}{person.login}",
        algorithm="ed25519",
        tenants=[person.tenant] if person.tenant else [],
    )
    trusted = key.trusted_key()
    return PersonKey(
        key_id=key.key_id,
        login=person.login,
        tenant=person.tenant,
        algorithm=key.algorithm,
        public_key=trusted.material,
        sealed_secret=service_key.seal(key, entropy(_NONCE_BYTES)),
        issuer=service_key.issuer.key_id,
        certificate=service_key.certify(trusted),
        created_at=format_timestamp(now),
    )


def _forbidden_error(login: str) -> InputError:
    help_text = f"`demur people change {login} --role approver` allows it"
    return InputError(f"`{login}` may not approve", where="login", help=help_text)


def load_issuers(settings: PeopleSettings) -> KeyRing:
    """Return the issuers whose certificates count: those of `trusted`, or else the service key's.

    Without either file there is none, so no grant of a person counts.

    Raises:
        InputError: A file cannot be read.
    """
    if settings.trusted is not None:
        return load_trusted_keys(settings.trusted)
    if not Path(settings.key).exists():
        return KeyRing()
    return KeyRing([ServiceKey.from_file(settings.key).issuer.trusted_key()])


def resolve_people_paths(settings: PeopleSettings, place: Callable[[str], str]) -> PeopleSettings:
    """Return the settings with the places of their files."""
    trusted = None if settings.trusted is None else place(settings.trusted)
    return msgspec.structs.replace(settings, key=place(settings.key), trusted=trusted)
