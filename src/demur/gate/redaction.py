"""Redaction: remove secrets from a request before anything is stored.

The operator chooses the profile; a request cannot. Removed parts are named by path, so a replay
knows what is missing. A removed text is also replaced wherever else it occurs, except in the
fields that identify the request, so that no caller can hide who asked for what.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from demur.errors import InputError
from demur.gate.secret_names import is_secret
from demur.model.request import REQUEST_KEYS, Action, PolicyPin, Subject, Tenant
from demur.source.suggest import did_you_mean

__all__ = [
    "DEFAULT",
    "OFF",
    "PROFILES",
    "STRICT",
    "Profile",
    "Redacted",
    "check_profile",
    "profile_named",
    "redact",
    "scrub",
]

REMOVED = "[removed]"

_CONTAINERS = (dict, list)
# Shorter texts occur elsewhere by chance, so they are not searched for.
_SHORTEST_SCRUBBED = 4
# Searching for more texts takes too long; then only the identity is kept.
_MOST_SCRUBBED = 256
# A longer list of removed paths is of no use; then only the identity is kept.
_MOST_REMOVED = 256
_LONGEST_NAMED = 20_000
# A record has columns for these fields, so they cannot be removed.
_NEEDED = ("action.type", "continues", "request_id", "subject.id", "subject.type", "tenant.id")
_KEPT = frozenset(
    [
        *_NEEDED,
        "action.amount.currency",
        "action.amount.value",
        "policy.policy_id",
        "policy.policy_version",
        "schema_version",
    ]
)
_SCHEMA_WORDS = frozenset(
    [
        *REQUEST_KEYS,
        *(name for part in (Action, PolicyPin, Subject, Tenant) for name in part.__struct_fields__),
        "currency",
        "resource_id",
        "resource_type",
        "system",
        "value",
    ]
)


class Profile(NamedTuple):
    """What to remove: values under secret-looking keys, and whole parts by path.

    A path does not name places in lists: `evidence.cards.number`. `details` also removes what
    guards quoted of the request.
    """

    name: str
    secret_keys: bool = True
    paths: tuple[str, ...] = ()
    details: bool = False


OFF = Profile("off", secret_keys=False)
DEFAULT = Profile("default")
STRICT = Profile(
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
PROFILES = {profile.name: profile for profile in (OFF, DEFAULT, STRICT)}


class Redacted(NamedTuple):
    """A redacted request, the removed paths, and the removed texts.

    `details` says whether quotations in findings may be stored.
    """

    request: Mapping[str, Any]
    removed: tuple[str, ...] = ()
    texts: frozenset[str] = frozenset()
    details: bool = True


def check_profile(profile: Profile) -> Profile:
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
        if any(_within(path, needed) or _within(needed, path) for needed in _NEEDED):
            problem = f"`{path}` cannot be removed: decisions are found by it"
            raise InputError(problem, where="redaction", help="send a pseudonym instead")
    return profile


def _within(path: str, other: str) -> bool:
    return f"{path}.".startswith(f"{other}.")


def profile_named(name: str, paths: Iterable[str] = ()) -> Profile:
    """Return the profile of that name, with more paths to remove.

    Raises:
        InputError: There is no such profile.
    """
    if name not in PROFILES:
        raise InputError(
            f"unknown redaction profile `{name}`", help=f"one of {', '.join(PROFILES)}"
        )
    profile = PROFILES[name]
    extra = tuple(paths)
    return profile._replace(paths=(*profile.paths, *extra)) if extra else profile


def redact(request: Mapping[str, Any], profile: Profile) -> Redacted:
    """Return the redacted request; the same object if there is nothing to remove."""
    if not profile.paths and (not profile.secret_keys or not _has_secrets(request)):
        return Redacted(request, details=not profile.details)
    removal = _Removal(profile)
    try:
        kept = removal.mapping(request, "", "")
    except _TooMuchError:
        return _bare(request)
    if not removal.removed:
        return Redacted(request, details=not profile.details)
    if len(removal.texts) > _MOST_SCRUBBED:
        return _bare(request)
    # INVARIANT: a redacted record never contains the removed text.
    texts = frozenset(removal.texts)
    scrubbing = _Scrubbing(texts)
    kept = scrubbing.mapping(kept, "")
    paths = {_scrubbed_path(path, texts) for path in (*removal.removed, *scrubbing.changed)}
    return Redacted(kept, tuple(sorted(paths)), texts, not profile.details)


def _bare(request: Mapping[str, Any]) -> Redacted:
    """Return only the identity of a request, for one with too much to remove."""
    kept = _skeleton(request, "")
    removed = sorted(key for key, item in request.items() if kept.get(key) != item)
    return Redacted(kept, tuple(removed), details=False)


def _skeleton(value: Mapping[str, Any], path: str) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, item in value.items():
        place = _joined(path, key)
        if place in _KEPT:
            kept[key] = item
        elif item.__class__ is dict and (inner := _skeleton(item, place)):
            kept[key] = inner
    return kept


def scrub(value: Any, texts: frozenset[str]) -> Any:
    """Return `value` with every removed text that occurs in it replaced."""
    if not texts:
        return value
    if isinstance(value, str):
        for text in sorted(texts, key=len, reverse=True):
            value = value.replace(text, REMOVED)
        return value
    if isinstance(value, Mapping):
        return {scrub(key, texts): scrub(item, texts) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [scrub(item, texts) for item in value]
    return REMOVED if str(value) in texts and not isinstance(value, bool) else value


# A cache of key tuples without a secret name: similar requests have the same keys.
_harmless: set[tuple[str, ...]] = set()
_MOST_HARMLESS = 4096
_MOST_KEYS = 64


def _has_secrets(value: Any) -> bool:
    """Return whether any key at any depth names a secret; most requests have none."""
    items = value
    if value.__class__ is dict:
        keys = tuple(value)
        if keys not in _harmless:
            if any(map(is_secret, keys)):
                return True
            if len(_harmless) < _MOST_HARMLESS and len(keys) <= _MOST_KEYS:
                _harmless.add(keys)
        items = value.values()
    for item in items:  # noqa: SIM110 - a generator would cost more than the loop
        if item.__class__ in _CONTAINERS and _has_secrets(item):
            return True
    return False


class _TooMuchError(Exception):
    """There are more parts to remove than a record may list."""


class _Removal:
    """Removes secrets and paths. `plain` is a path without places in lists."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._paths = frozenset(profile.paths)
        self.removed: list[str] = []
        self.texts: set[str] = set()
        self._named = 0

    def mapping(self, value: Mapping[str, Any], path: str, plain: str) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, item in value.items():
            place, name = _joined(path, key), _joined(plain, key)
            secret = self._profile.secret_keys and is_secret(key)
            if secret or place in self._paths or name in self._paths:
                self._remove(place, item)
            else:
                kept[key] = self._value(item, place, name)
        return kept

    def _value(self, value: Any, path: str, plain: str) -> Any:
        if value.__class__ is dict:
            return self.mapping(value, path, plain)
        if value.__class__ is list:
            return [self._item(item, f"{path}.{i}", plain) for i, item in enumerate(value)]
        return value

    def _item(self, item: Any, path: str, plain: str) -> Any:
        if path in self._paths:
            # Keep the places of the following items.
            self._remove(path, item)
            return REMOVED
        return self._value(item, path, plain)

    def _remove(self, path: str, value: Any) -> None:
        self.removed.append(path)
        self._named += len(path)
        if len(self.removed) > _MOST_REMOVED or self._named > _LONGEST_NAMED:
            raise _TooMuchError
        self._remember(value)

    def _remember(self, value: Any) -> None:
        if isinstance(value, Mapping):
            for item in value.values():
                self._remember(item)
        elif isinstance(value, list):
            for item in value:
                self._remember(item)
        elif value is not None and not isinstance(value, bool):
            text = str(value)
            if len(text) >= _SHORTEST_SCRUBBED and text not in REMOVED:
                self.texts.add(text)


class _Scrubbing:
    """Replaces removed texts in the rest of a request, and collects the changed paths."""

    def __init__(self, texts: frozenset[str]) -> None:
        self._texts = texts
        self.changed: list[str] = []

    def mapping(self, value: Mapping[str, Any], path: str) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, item in value.items():
            name = _scrubbed_name(key, self._texts)
            place = _joined(path, name)
            if name != key:
                self.changed.append(place)
            kept[name] = item if place in _KEPT else self._value(item, place)
        return kept

    def _value(self, value: Any, path: str) -> Any:
        if value.__class__ is dict:
            return self.mapping(value, path)
        if value.__class__ is list:
            return [self._value(item, f"{path}.{i}") for i, item in enumerate(value)]
        clean = scrub(value, self._texts)
        if clean != value:
            self.changed.append(path)
        return clean


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _scrubbed_path(path: str, texts: frozenset[str]) -> str:
    return ".".join(_scrubbed_name(name, texts) for name in path.split("."))


def _scrubbed_name(name: str, texts: frozenset[str]) -> str:
    """Return a key without removed texts; schema words and secret names stay as they are."""
    if name in _SCHEMA_WORDS or is_secret(name):
        return name
    clean: str = scrub(name, texts)
    return clean
