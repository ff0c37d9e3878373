"""Sign-in at an identity provider by OpenID Connect: the authorization code flow with PKCE.

State, nonce and code verifier all follow from one random secret, which only the browser keeps: in a
cookie, for some minutes. Nothing is trusted that the provider did not sign: the ID token is checked
with the keys of the provider, and its issuer, audience, nonce and times.
"""

import asyncio
import hashlib
import hmac
import os
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from demur.errors import DemurError, MissingExtraError
from demur.gate.clock import Clock
from demur.gate.people import OidcSettings
from demur.listener import is_loopback
from demur.service.authentication import PERSON_ROLES
from demur.service.people import fold_login

_TIMEOUT_S = 5.0
_MAX_ANSWER = 1 << 20
_MAX_TOKEN = 100_000
_MEMORY = timedelta(hours=1)
# How soon an unknown key makes demur read the provider's keys again.
_KEY_PAUSE = timedelta(seconds=30)
_LEEWAY_S = 60.0
_DISCOVERY = "/.well-known/openid-configuration"
# Signatures that only the holder of a private key can make.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
_MAX_VALUES = 1000


class OidcError(DemurError):
    """A sign-in that failed: the provider cannot be reached, or what it sent does not count."""


class OidcIdentity(NamedTuple):
    """A person as the provider describes them. A role is None if no value of the claim has one."""

    issuer: str
    subject: str
    login: str
    role: str | None
    groups: tuple[str, ...]


class _Provider(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a discovery document that matters here."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    id_token_signing_alg_values_supported: tuple[str, ...] = ("RS256",)
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _TokenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the token endpoint; the access token is not used."""

    id_token: str


class OidcClient:
    """Signs people in at one identity provider. It needs `joserfc` and `httpx`."""

    def __init__(self, settings: OidcSettings, *, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        self._provider: tuple[_Provider, datetime] | None = None
        self._keys: tuple[Any, datetime] | None = None
        self._tls: Any = None
        self._lock = asyncio.Lock()

    @property
    def name(self) -> str:
        """The name of the provider for people."""
        return self.settings.name or (urlsplit(self.settings.issuer).hostname or "")

    async def begin(self, secret: str, redirect_uri: str) -> str:
        """Return the address at the provider where a person signs in.

        Raises:
            OidcError: The provider cannot be reached, or its settings cannot be used.
            MissingExtraError: `demur[people]` is not installed.
        """
        provider = await self._discover()
        challenge = hashlib.sha256(derive(secret, "verifier").encode()).digest()
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self.settings.client_id,
                "redirect_uri": redirect_uri,
                "scope": " ".join(self.settings.scopes),
                "state": derive(secret, "state"),
                "nonce": derive(secret, "nonce"),
                "code_challenge": urlsafe_b64encode(challenge).decode().rstrip("="),
                "code_challenge_method": "S256",
            }
        )
        separator = "&" if "?" in provider.authorization_endpoint else "?"
        return f"{provider.authorization_endpoint}{separator}{query}"

    async def finish(
        self, secret: str, answer: Mapping[str, str], redirect_uri: str
    ) -> OidcIdentity:
        """Return who signed in, by the answer that the browser brought from the provider.

        Raises:
            OidcError: The answer does not belong to this browser, or the token does not count.
            MissingExtraError: `demur[people]` is not installed.
        """
        # An answer counts only in the browser that asked.
        if not hmac.compare_digest(
            answer.get("state", "").encode(), derive(secret, "state").encode()
        ):
            raise OidcError("this sign-in was not begun in this browser, or too long ago")
        if answer.get("iss", self.settings.issuer) != self.settings.issuer:
            raise OidcError("the answer comes from another identity provider")
        if "error" in answer:
            raise OidcError(f"the identity provider refused: {answer['error'][:100]}")
        if not answer.get("code"):
            raise OidcError("the identity provider sent no code")
        provider = await self._discover()
        token = await self._redeem(provider, answer["code"], secret, redirect_uri)
        claims = await self._read_token(provider, token)
        self._check_claims(claims, derive(secret, "nonce"))
        return read_identity(self.settings, claims)

    # -- the provider ----------------------------------------------------------------------

    async def _discover(self) -> _Provider:
        async with self._lock:
            now = self._clock()
            if self._provider is not None and now < self._provider[1]:
                return self._provider[0]
            raw = await self._fetch("GET", f"{self.settings.issuer.rstrip('/')}{_DISCOVERY}")
            provider: _Provider = _decode(raw, _Provider, "its discovery document")
            if provider.issuer != self.settings.issuer:
                problem = f"the identity provider calls itself `{provider.issuer[:200]}`"
                raise OidcError(problem, where="people.oidc.issuer")
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                self._check_address(getattr(provider, name), name)
            self._provider = (provider, now + _MEMORY)
            return provider

    def _check_address(self, address: str, name: str) -> None:
        parts = urlsplit(address)
        local = parts.scheme == "http" and is_loopback(parts.hostname or "")
        own = urlsplit(self.settings.issuer)
        if parts.scheme != "https" and not (local and is_loopback(own.hostname or "")):
            raise OidcError(f"the identity provider names an `{name}` without https")

    async def _redeem(self, provider: _Provider, code: str, secret: str, redirect_uri: str) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": derive(secret, "verifier"),
        }
        client_id, password = self.settings.client_id, self._client_secret()
        auth = None
        if password is None:
            form["client_id"] = client_id
        elif "client_secret_basic" in provider.token_endpoint_auth_methods_supported:
            auth = (quote(client_id, safe=""), quote(password, safe=""))
        else:
            form |= {"client_id": client_id, "client_secret": password}
        raw = await self._fetch("POST", provider.token_endpoint, data=form, auth=auth)
        answer: _TokenAnswer = _decode(raw, _TokenAnswer, "the answer with the token")
        return answer.id_token

    def _client_secret(self) -> str | None:
        name = self.settings.client_secret_env
        if not name:
            return None
        secret = os.environ.get(name)
        if not secret:
            problem = f"the environment variable `{name}` is not set"
            raise OidcError(problem, where="people.oidc.client_secret_env")
        return secret

    async def _read_token(self, provider: _Provider, token: str) -> dict[str, Any]:
        if len(token) > _MAX_TOKEN:
            raise OidcError("the ID token is too long")
        supported = provider.id_token_signing_alg_values_supported
        # Neither unsigned tokens nor those signed with a shared secret.
        algorithms = [one for one in _ALGORITHMS if one in supported]
        if not algorithms:
            raise OidcError("the identity provider signs in no way that demur accepts")
        jwt, errors = _load("joserfc.jwt"), _load("joserfc.errors")
        for is_last in (False, True):
            keys = await self._read_keys(provider, renew=is_last)
            try:
                return dict(jwt.decode(token, keys, algorithms=algorithms).claims)
            except (errors.InvalidKeyIdError, errors.BadSignatureError) as error:
                # The provider may have new keys.
                if is_last:
                    raise OidcError("the ID token has no signature of the provider") from error
            except (errors.JoseError, ValueError, TypeError) as error:
                raise OidcError("the ID token has no signature of the provider") from error
        raise AssertionError

    async def _read_keys(self, provider: _Provider, *, renew: bool) -> Any:
        async with self._lock:
            now = self._clock()
            if self._keys is not None:
                keys, read_at = self._keys
                if now < read_at + (_KEY_PAUSE if renew else _MEMORY):
                    return keys
            raw = await self._fetch("GET", provider.jwks_uri)
            found = _decode(raw, dict[str, Any], "its keys")
            jwk, errors = _load("joserfc.jwk"), _load("joserfc.errors")
            usable = [
                one
                for one in found.get("keys", ())
                if isinstance(one, dict)
                and one.get("kty") in {"RSA", "EC", "OKP"}
                and one.get("use", "sig") == "sig"
            ]
            try:
                keys = jwk.KeySet.import_key_set({"keys": usable})
            except (errors.JoseError, ValueError, TypeError) as error:
                raise OidcError("cannot read the keys of the identity provider") from error
            self._keys = (keys, now)
            return keys

    def _check_claims(self, claims: Mapping[str, Any], nonce: str) -> None:
        """Refuse a token that is not for this client, this sign-in and this time.

        Raises:
            OidcError: It is not.
        """
        own = self.settings.client_id
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if claims.get("iss") != self.settings.issuer:
            raise OidcError("the ID token comes from another issuer")
        if own not in audiences or claims.get("azp", own) != own:
            raise OidcError("the ID token is for another client")
        if len(audiences) > 1 and "azp" not in claims:
            raise OidcError("the ID token is for several clients")
        found = claims.get("nonce")
        if not isinstance(found, str) or not hmac.compare_digest(found.encode(), nonce.encode()):
            raise OidcError("the ID token belongs to another sign-in")
        now_s = self._clock().timestamp()
        if now_s >= _read_time(claims, "exp") + _LEEWAY_S:
            raise OidcError("the ID token has expired")
        begins_s = [_read_time(claims, "iat")]
        begins_s += [_read_time(claims, "nbf")] if "nbf" in claims else []
        if now_s < max(begins_s) - _LEEWAY_S:
            raise OidcError("the ID token is not valid yet; is the clock right?")

    async def _fetch(self, method: str, address: str, **more: Any) -> bytes:
        httpx = _load("httpx")
        if self._tls is None:
            self._tls = httpx.create_ssl_context()
        headers = {"accept": "application/json"}
        raw = b""
        try:
            # Redirects are not followed: the addresses are the provider's own.
            async with (
                httpx.AsyncClient(verify=self._tls, timeout=_TIMEOUT_S) as client,
                client.stream(method, address, headers=headers, **more) as answer,
            ):
                async for part in answer.aiter_bytes():
                    raw += part
                    if len(raw) > _MAX_ANSWER:
                        raise OidcError("the identity provider sends too much")
                status = answer.status_code
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            kind = type(error).__name__
            raise OidcError(f"the identity provider does not answer: {kind}") from error
        if status != 200:
            raise OidcError(f"the identity provider answers with status {status}")
        return raw


def derive(secret: str, purpose: str) -> str:
    """Return the value for one purpose that follows from the secret of a sign-in."""
    raw = hmac.digest(secret.encode(), f"demur oidc {purpose}".encode(), "sha256")
    return urlsafe_b64encode(raw).decode().rstrip("=")


def read_identity(settings: OidcSettings, claims: Mapping[str, Any]) -> OidcIdentity:
    """Return the person that the claims of a checked token describe.

    Raises:
        OidcError: They name no subject or no login.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject.isprintable() or not 0 < len(subject) <= 255:
        raise OidcError("the ID token names no subject")
    login = find_claim(claims, settings.login_claim)
    if not isinstance(login, str) or not login.strip():
        problem = f"the ID token has no claim `{settings.login_claim}`"
        raise OidcError(problem, where="people.oidc.login_claim")
    if settings.login_claim == "email" and claims.get("email_verified") is not True:
        raise OidcError("the identity provider has not verified the e-mail address")
    values = _list_values(find_claim(claims, settings.role_claim))
    # INVARIANT: a person has no more power than the roles of the settings give.
    given = {settings.roles[value] for value in values if value in settings.roles}
    role = next((one for one in reversed(list(PERSON_ROLES)) if one in given), None)
    groups = _list_values(find_claim(claims, settings.group_claim)) if settings.group_claim else ()
    usable = tuple(one for one in groups if one.isprintable() and " " not in one and len(one) < 100)
    return OidcIdentity(settings.issuer, subject, fold_login(login), role, usable[:50])


def find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by its path, like `realm_access.roles`; None without it."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _list_values(found: Any) -> tuple[str, ...]:
    listed = found if isinstance(found, list) else [found]
    return tuple(one for one in listed[:_MAX_VALUES] if isinstance(one, str) and one)


def _read_time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OidcError(f"the ID token has no time `{name}`")
    return float(value)


def _decode(raw: bytes, kind: Any, what: str) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise OidcError(f"the identity provider sends {what} in an unknown form") from error


def _load(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        problem = f"sign-in by OpenID Connect needs the `{name.partition('.')[0]}` package"
        raise MissingExtraError(problem, help="pip install 'demur[people]'") from error
