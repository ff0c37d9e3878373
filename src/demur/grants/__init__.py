"""Grants and keys: sign a grant, check it, and lift what it may lift."""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.classification import Classification, make_decision
    from demur.codes.vocabulary import GrantKind
    from demur.grants.keys import KEY_BYTES, KeyRing, SigningKey, TrustedKey, read_signing_key
    from demur.grants.resolution import GrantRejection, check_grant, resolve
    from demur.grants.revocations import RevocationFile
    from demur.grants.signing import sign_approval, sign_grant
    from demur.model.decision import Decision
    from demur.model.grant import Grant

__all__ = [
    "KEY_BYTES",
    "Classification",
    "Decision",
    "Grant",
    "GrantKind",
    "GrantRejection",
    "KeyRing",
    "RevocationFile",
    "SigningKey",
    "TrustedKey",
    "check_grant",
    "make_decision",
    "read_signing_key",
    "resolve",
    "sign_approval",
    "sign_grant",
]

_HOMES = {
    "demur.classification": "Classification make_decision",
    "demur.codes.vocabulary": "GrantKind",
    "demur.grants.keys": "KEY_BYTES KeyRing SigningKey TrustedKey read_signing_key",
    "demur.grants.resolution": "GrantRejection check_grant resolve",
    "demur.grants.revocations": "RevocationFile",
    "demur.grants.signing": "sign_approval sign_grant",
    "demur.model.decision": "Decision",
    "demur.model.grant": "Grant",
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
