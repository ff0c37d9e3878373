"""A small OpenID provider for tests: real HTTP on loopback, real keys, codes that work once.

It does what a provider does: discovery, keys, authorization with PKCE, and tokens for a client
that proves itself. A test can make it lie in one way at a time.
"""

import hashlib
import hmac
import json
import threading
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from joserfc import jwk, jwt

from support.gates import NOON

__all__ = ["CLIENT_ID", "CLIENT_SECRET", "Provider", "running_provider"]

CLIENT_ID = "demur"
CLIENT_SECRET = "a secret / of the client"
_RSA = jwk.RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"})
_EC = jwk.ECKey.generate_key("P-256", {"kid": "ec", "use": "sig"})
_OTHER = jwk.RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"})


class Provider(ThreadingHTTPServer):
    """The provider. `claims` are those of the person who signs in."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.claims: dict[str, Any] = {
            "sub": "248289761001",
            "preferred_username": "Mary",
            "groups": ["staff", "approvers"],
        }
        self.algorithm = "RS256"
        self.keys: list[Any] = [_RSA, _EC]
        # Changes the claims of a token, its text, or the discovery document.
        self.change_claims: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims
        self.change_token: Callable[[str], str] = lambda token: token
        self.change_metadata: Callable[[dict[str, Any]], dict[str, Any]] = lambda document: document
        self.forged = False
        self.status = 200
        self.codes: dict[str, dict[str, str]] = {}
        self.calls: list[str] = []

    @property
    def issuer(self) -> str:
        """The address of the provider."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def metadata(self) -> dict[str, Any]:
        """Return the discovery document."""
        return self.change_metadata(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "id_token_signing_alg_values_supported": ["RS256", "ES256", "none", "HS256"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            }
        )

    def authorize(self, address: str) -> str:
        """Sign the person in as a browser would, and return where it is sent then."""
        query = {name: one[0] for name, one in parse_qs(urlsplit(address).query).items()}
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert query["client_id"] == CLIENT_ID
        assert "openid" in query["scope"].split()
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        answer = {"code": code, "state": query["state"], "iss": self.issuer}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def redeem(self, form: dict[str, str], authorization: str) -> dict[str, str] | None:
        """Return the tokens for a code, once, or None."""
        asked = self.codes.pop(form.get("code", ""), None)
        user, _, password = b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        challenge = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if (
            asked is None
            or (unquote(user), unquote(password)) != (CLIENT_ID, CLIENT_SECRET)
            or _encode(challenge) != asked["code_challenge"]
            or form.get("redirect_uri") != asked["redirect_uri"]
        ):
            return None
        now = int(NOON.timestamp())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            **self.claims,
        }
        return {"id_token": self.sign(self.change_claims(claims)), "token_type": "Bearer"}

    def sign(self, claims: dict[str, Any]) -> str:
        """Return an ID token."""
        if self.algorithm in {"none", "HS256"}:
            head = {"alg": self.algorithm, "kid": _RSA.kid}
            raw = ".".join(_encode(json.dumps(part).encode()) for part in (head, claims))
            # The known attack: the public key as the secret of a MAC.
            mac = hmac.digest(_RSA.as_pem(private=False), raw.encode(), "sha256")
            return f"{raw}.{_encode(mac) if self.algorithm == 'HS256' else ''}"
        key = _OTHER if self.forged else _RSA if self.algorithm.startswith("RS") else _EC
        header = {"alg": self.algorithm, "kid": key.kid}
        return self.change_token(jwt.encode(header, claims, key))


def _encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        """Answer with the discovery document or the keys."""
        self.server.calls.append(self.path)
        if self.path == "/.well-known/openid-configuration":
            self._answer(self.server.metadata())
        elif self.path == "/keys":
            self._answer({"keys": [key.as_dict(private=False) for key in self.server.keys]})
        else:
            self._answer({}, 404)

    def do_POST(self) -> None:
        """Answer with tokens."""
        self.server.calls.append(self.path)
        raw = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: one[0] for name, one in parse_qs(raw).items()}
        tokens = self.server.redeem(form, self.headers.get("Authorization", ""))
        self._answer(tokens or {"error": "invalid_grant"}, 200 if tokens else 400)

    def _answer(self, value: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status if self.server.status == 200 else self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Keep quiet."""


@contextmanager
def running_provider() -> Iterator[Provider]:
    """Yield a provider that answers."""
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
