"""Redaction: remove secrets from a request before anything is stored.

A secret stands under a key that names one, or is a credential that the guards recognise. The
operator chooses the profile; a request cannot. Removed parts are named by path, so a replay knows
what is missing. A removed text is also replaced wherever else it occurs, except in the fields that
identify the request, so that no caller can hide who asked for what.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from demur.errors import InputError
from demur.guards.secret_formats import (
    FORMATTED_SECRETS,
    PRIVATE_KEYS,
    count_candidates,
    may_hold_secrets,
)
from demur.guards.secret_values import ASSIGNED_SECRETS, find_assignments
from demur.guards.text_search import AsciiView, make_ascii_view, search_view
from demur.model.request import REQUEST_KEYS, Action, PolicyPin, Subject, Tenant
from demur.source.item import did_you_mean

# Matched against the last words of a key: `api_token` matches, `token_count` does not.
# A number or a plural at the end is ignored.
_SECRET_WORDS = re.compile(
    r"(?:^|_)(?:access_key|api_key|authorization|card_number|cookie|credential|credit_card|cvc|cvv"
    r"|encryption_key|iban|jwt|otp|passphrase|passwd|password|pin|private_key|pwd|secret|secret_key"
    r"|signing_key|ssn|token)\Z"
)
# Matched at the end of a key, also where its words run together: `mypassword`.
_SECRET_ENDING = re.compile(
    r"(?:accesskey|apikey|cardnumber|credential|passphrase|passwd|password|privatekey|secret"
    r"|secretkey|token)\Z"
)
_known_names: dict[str, bool] = {}
_MAX_NAMES = 4096
_MAX_SECRET_NAME_LENGTH = 64
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")


def is_secret_name(key: str) -> bool:
    """Return whether a key names a secret, which is never stored."""
    known = _known_names.get(key)
    if known is None:
        words = "_".join(_WORDS.findall(key)).lower().rstrip("_0123456789")
        known = any(
            _SECRET_WORDS.search(name) or _SECRET_ENDING.search(name.replace("_", ""))
            for name in {words, words.removesuffix("s")}
        )
        if len(_known_names) < _MAX_NAMES and len(key) <= _MAX_SECRET_NAME_LENGTH:
            _known_names[key] = known
    return known


REMOVED = "[removed]"

# The searches of SECRET_LEAK, without the words that merely look random.
_SECRETS = (PRIVATE_KEYS, FORMATTED_SECRETS)
_SEARCHES = tuple(search.search_ascii for search in _SECRETS if search.search_ascii)
# Judging more takes too long for a decision; then only the identity is kept.
_MAX_CANDIDATES = 500
_MAX_ASSIGNMENTS = 250
# How much text before and after an assignment its judgement reads.
_ASSIGNMENT_REACH = (96, 256)
# A shorter text is no credential, unless something in it says so.
_MIN_CREDENTIAL_LENGTH = 16
_MIN_ASSIGNED_LENGTH = 8
_NO_TEXTS: frozenset[str] = frozenset()
_SEPARATOR = "\n\x1f\n"


def find_secret_texts(value: Any) -> frozenset[str]:
    """Return the credentials in the texts of a JSON value, as SECRET_LEAK finds them.

    Raises:
        _TooManyRemovalsError: There is more to judge than a decision may take.
    """
    texts: list[str] = []
    _collect_searched((value,), "", texts)
    if not texts:
        return _NO_TEXTS
    text = _SEPARATOR.join(texts)
    view = make_ascii_view(text)
    candidates = count_candidates(view.text)
    if candidates > _MAX_CANDIDATES:
        raise _TooManyRemovalsError
    matches = [
        text[match.start : match.end]
        for search in (_SEARCHES if candidates else ())
        for match in search_view(view, search, text, 0, final=True).matches
    ]
    matches += _find_assigned(text, view)
    if not matches:
        return _NO_TEXTS
    parts = (part for match in matches for part in match.split(_SEPARATOR))
    return frozenset(part for part in parts if len(part) >= _MIN_SCRUBBED_LENGTH)


def _find_assigned(text: str, view: AsciiView) -> Iterator[str]:
    """Yield the secrets that are assigned to a name, each found in the text around it."""
    before, after = _ASSIGNMENT_REACH
    searched = 0
    for number, place in enumerate(find_assignments(view.text)):
        if number >= _MAX_ASSIGNMENTS:
            raise _TooManyRemovalsError
        if place < searched:
            # The window of an earlier one holds this one, its value included.
            continue
        end = min(place + 2 * after, len(view.text))
        searched = end - after
        first = view.text_place(max(0, place - before), len(text))
        window = text[first : view.text_end(end)]
        for match in ASSIGNED_SECRETS.search(window, 0, True).matches:
            yield window[match.start : match.end]


def _collect_searched(values: Any, name: str, texts: list[str]) -> None:
    """Add the texts that may hold a credential; a name that marks one leads its value."""
    is_mapping = isinstance(values, dict)
    for key in values:
        item = values[key] if is_mapping else key
        if is_mapping:
            name = key
            if len(key) >= _MIN_CREDENTIAL_LENGTH:
                texts.append(key)
        if isinstance(item, str):
            if len(item) >= _MIN_ASSIGNED_LENGTH:
                _collect_text(item, name, texts)
        elif isinstance(item, _SEARCHED):
            _collect_searched(item, name, texts)


_SEARCHED = (dict, list, tuple)


def _collect_text(text: str, name: str, texts: list[str]) -> None:
    if " " not in text and _marks_secret(name):
        texts.append(f"{name}={text}")
    elif len(text) >= _MIN_CREDENTIAL_LENGTH or "=" in text or ":" in text:
        texts.append(text)


@lru_cache(4096)
def _marks_secret(name: str) -> bool:
    """Return whether a random value under this name is a credential."""
    text = f"{name}={_RANDOM_VALUE}"
    return bool(name) and bool(ASSIGNED_SECRETS.search(text, 0, True).matches)


_RANDOM_VALUE = "Zq7-Rk2Wm9-Xv4Tp8"


def blot_secrets(value: Any) -> Any:
    """Return a JSON value without secrets: the same object if there are none."""
    whole, removal = {"value": value}, _SecretRemover(DEFAULT_PROFILE, keeps_names=True)
    try:
        texts = find_secret_texts(value)
        if not texts and not _has_secrets(whole):
            return value
        kept = removal.remove_from(whole, "", "")["value"]
    except _TooManyRemovalsError:
        return REMOVED
    texts |= removal.texts
    return REMOVED if len(texts) > _MAX_SCRUBBED else scrub_texts(kept, texts)


_CONTAINERS = (dict, list)
# Shorter texts occur elsewhere by chance, so they are not searched for.
_MIN_SCRUBBED_LENGTH = 4
# Searching for more texts takes too long; then only the identity is kept.
_MAX_SCRUBBED = 256
# A longer list of removed paths is of no use; then only the identity is kept.
_MAX_REMOVED = 256
_MAX_NAMED_LENGTH = 20_000
# A record has columns for these fields, so they cannot be removed.
_NEEDED = ("action.type", "continues", "request_id", "subject.id", "subject.type", "tenant.id")
_KEPT = {
    *_NEEDED,
    "action.amount.currency",
    "action.amount.value",
    "schema_version",
    "policy.policy_id",
    "policy.policy_version",
}
_PARTS = (Action, PolicyPin, Subject, Tenant)
_SCHEMA_WORDS = {
    *REQUEST_KEYS,
    "currency",
    "resource_id",
    "resource_type",
    "system",
    "value",
}.union(*(part.__struct_fields__ for part in _PARTS))


class RedactionProfile(NamedTuple):
    """What to remove: values under secret-looking keys, and whole parts by path.

    A path does not name places in lists: `evidence.cards.number`. `details` also removes what
    guards quoted of the request.
    """

    name: str
    secret_keys: bool = True
    paths: tuple[str, ...] = ()
    details: bool = False


NO_REDACTION = RedactionProfile("off", secret_keys=False)
DEFAULT_PROFILE = RedactionProfile("default")
STRICT_PROFILE = RedactionProfile(
    "strict",
    paths=(
        "action.intent",
        "context.inline",
        "evidence",
        "extensions",
        "subject.ip",
        "subject.user_agent",
    ),
    details=True,
)
PROFILES = {profile.name: profile for profile in (NO_REDACTION, DEFAULT_PROFILE, STRICT_PROFILE)}


class RedactedRequest(NamedTuple):
    """A redacted request, the removed paths, and the removed texts.

    `details` says whether quotations in findings may be stored.
    """

    request: Mapping[str, Any]
    removed: tuple[str, ...] = ()
    texts: frozenset[str] = frozenset()
    details: bool = True


def check_profile(profile: RedactionProfile) -> RedactionProfile:
    """Return the profile if everything it asks for can be removed.

    Raises:
        InputError: A path is not part of a request, or a record needs it.
    """
    for path in profile.paths:
        root = path.partition(".")[0]
        if root not in REQUEST_KEYS:
            known = did_you_mean(root, REQUEST_KEYS) or f"one of {', '.join(REQUEST_KEYS)}"
            problem = f"a request has no part `{path}` to remove"
            raise InputError(problem, where="redaction", help=known)
        if any(_is_within(path, needed) or _is_within(needed, path) for needed in _NEEDED):
            problem = f"`{path}` cannot be removed: decisions are found by it"
            raise InputError(problem, where="redaction", help="send a pseudonym instead")
    return profile


def _is_within(path: str, other: str) -> bool:
    return f"{path}.".startswith(f"{other}.")


def find_profile(name: str, paths: Iterable[str] = ()) -> RedactionProfile:
    """Return the profile of that name, with more paths to remove.

    Raises:
        InputError: There is no such profile.
    """
    if name not in PROFILES:
        known = ", ".join(PROFILES)
        raise InputError(f"unknown redaction profile `{name}`", help=f"one of {known}")
    profile, extra = PROFILES[name], tuple(paths)
    return profile._replace(paths=(*profile.paths, *extra)) if extra else profile


def redact_request(
    request: Mapping[str, Any], profile: RedactionProfile, beside: Any = None, raw: bytes = b""
) -> RedactedRequest:
    """Return the redacted request; the same object if there is nothing to remove.

    `beside` is what came with the request: secrets in it are removed as well. `raw` is the request
    as JSON, if it is at hand: most requests show there that they hold no secret.
    """
    is_searched = not raw or may_hold_secrets(raw)
    try:
        searched = (request, beside) if is_searched else beside
        found = find_secret_texts(searched) if profile.secret_keys and searched else _NO_TEXTS
    except _TooManyRemovalsError:
        return _keep_identity(request)
    has_names = profile.secret_keys and _has_secrets(request)
    if not profile.paths and not has_names and not found:
        return RedactedRequest(request, details=not profile.details)
    removal = _SecretRemover(profile)
    try:
        kept = removal.remove_from(request, "", "")
    except _TooManyRemovalsError:
        return _keep_identity(request)
    # INVARIANT: a redacted record never contains the removed text.
    texts = found | removal.texts
    if not texts and not removal.removed:
        return RedactedRequest(request, details=not profile.details)
    if len(texts) > _MAX_SCRUBBED:
        return _keep_identity(request)
    scrubbing = _TextScrubber(texts)
    kept = scrubbing.scrub_mapping(kept, "")
    removed = (*removal.removed, *scrubbing.changed)
    paths = {".".join(_scrub_name(name, texts) for name in path.split(".")) for path in removed}
    return RedactedRequest(kept, tuple(sorted(paths)), texts, not profile.details)


def _keep_identity(request: Mapping[str, Any]) -> RedactedRequest:
    """Return only the identity of a request, for one with too much to remove."""
    kept = _identity_fields(request, "")
    removed = sorted(key for key, item in request.items() if kept.get(key) != item)
    return RedactedRequest(kept, tuple(removed), details=False)


def _identity_fields(value: Mapping[str, Any], path: str) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, item in value.items():
        place = _join_path(path, key)
        if place in _KEPT:
            kept[key] = item
        elif item.__class__ is dict and (inner := _identity_fields(item, place)):
            kept[key] = inner
    return kept


def scrub_texts(value: Any, texts: frozenset[str]) -> Any:
    """Return `value` with every removed text that occurs in it replaced."""
    if not texts:
        return value
    if isinstance(value, str):
        for text in sorted(texts, key=len, reverse=True):
            value = value.replace(text, REMOVED)
        return value
    if isinstance(value, Mapping):
        return {scrub_texts(key, texts): scrub_texts(item, texts) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [scrub_texts(item, texts) for item in value]
    return REMOVED if str(value) in texts and not isinstance(value, bool) else value


# A cache of key tuples without a secret name: similar requests have the same keys.
_harmless: set[tuple[str, ...]] = set()
_MAX_HARMLESS = 4096
_MAX_KEYS = 64


def _has_secrets(value: Any) -> bool:
    """Return whether any key at any depth names a secret; most requests have none."""
    items = value
    if value.__class__ is dict:
        keys = tuple(value)
        if keys not in _harmless:
            if any(map(is_secret_name, keys)):
                return True
            if len(_harmless) < _MAX_HARMLESS and len(keys) <= _MAX_KEYS:
                _harmless.add(keys)
        items = value.values()
    for item in items:  # noqa: SIM110 - a generator would cost more than the loop
        if item.__class__ in _CONTAINERS and _has_secrets(item):
            return True
    return False


class _TooManyRemovalsError(Exception):
    """There are more parts to remove than a record may list."""


class _SecretRemover:
    """Removes secrets and paths. `plain` is a path without places in lists."""

    def __init__(self, profile: RedactionProfile, *, keeps_names: bool = False) -> None:
        self._profile = profile
        self._keeps_names = keeps_names
        self._paths = frozenset(profile.paths)
        self.removed: list[str] = []
        self.texts: set[str] = set()
        self._named = 0

    def remove_from(self, value: Mapping[str, Any], path: str, plain: str) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, item in value.items():
            place, name = _join_path(path, key), _join_path(plain, key)
            secret = self._profile.secret_keys and is_secret_name(key)
            if secret or place in self._paths or name in self._paths:
                self._remove_value(place, item)
                if self._keeps_names:
                    kept[key] = REMOVED
            else:
                kept[key] = self._visit_value(item, place, name)
        return kept

    def _visit_value(self, value: Any, path: str, plain: str) -> Any:
        if value.__class__ is dict:
            return self.remove_from(value, path, plain)
        if value.__class__ is list:
            return [self._visit_item(item, f"{path}.{i}", plain) for i, item in enumerate(value)]
        return value

    def _visit_item(self, item: Any, path: str, plain: str) -> Any:
        if path in self._paths:
            # Keep the places of the following items.
            self._remove_value(path, item)
            return REMOVED
        return self._visit_value(item, path, plain)

    def _remove_value(self, path: str, value: Any) -> None:
        self.removed.append(path)
        self._named += len(path)
        if len(self.removed) > _MAX_REMOVED or self._named > _MAX_NAMED_LENGTH:
            raise _TooManyRemovalsError
        self._collect_texts(value)

    def _collect_texts(self, value: Any) -> None:
        if isinstance(value, Mapping | list):
            for item in value.values() if isinstance(value, Mapping) else value:
                self._collect_texts(item)
        elif value is not None and not isinstance(value, bool):
            text = str(value)
            if len(text) >= _MIN_SCRUBBED_LENGTH and text not in REMOVED:
                self.texts.add(text)


class _TextScrubber:
    """Replaces removed texts in the rest of a request, and collects the changed paths."""

    def __init__(self, texts: frozenset[str]) -> None:
        self._texts = texts
        self.changed: list[str] = []

    def scrub_mapping(self, value: Mapping[str, Any], path: str) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, item in value.items():
            name = _scrub_name(key, self._texts)
            place = _join_path(path, name)
            if name != key:
                self.changed.append(place)
            kept[name] = item if place in _KEPT else self._scrub_value(item, place)
        return kept

    def _scrub_value(self, value: Any, path: str) -> Any:
        if value.__class__ is dict:
            return self.scrub_mapping(value, path)
        if value.__class__ is list:
            return [self._scrub_value(item, f"{path}.{i}") for i, item in enumerate(value)]
        clean = scrub_texts(value, self._texts)
        if clean != value:
            self.changed.append(path)
        return clean


def _join_path(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _scrub_name(name: str, texts: frozenset[str]) -> str:
    """Return a key without removed texts; schema words and secret names stay as they are."""
    if name in _SCHEMA_WORDS or is_secret_name(name):
        return name
    clean: str = scrub_texts(name, texts)
    return clean
