"""The settings of a model that a user brings: one table `[guards.models.NAME]` of `demur.toml`."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
import re2
import yaml

from demur.canonical import digest
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.errors import InputError
from demur.model.finding import Action
from demur.providers.signals import load_system
from demur.scorers.contract import CategoryMeaning, OnScorerFailure, category_name, is_signal_name
from demur.source.item import did_you_mean

ModelKind = Literal[
    "openai_moderation",
    "azure_content_safety",
    "bedrock_guardrails",
    "google_model_armor",
    "llama_guard",
    "shieldgemma",
    "granite_guardian",
    "qwen3guard",
    "openai_compatible",
    "onnx",
    "transformers",
    "trained",
]
LOCAL_KINDS = frozenset({"onnx", "transformers"})
TRAINED_KIND = "trained"
_OWN_KIND = "openai_compatible"
Positive = Annotated[float, msgspec.Meta(gt=0, le=3600)]
Score = Annotated[float, msgspec.Meta(ge=0, le=1)]
_COMMON_FIELDS = frozenset(
    (
        *("kind", "model", "surfaces", "timeout_s", "on_failure", "concurrency"),
        *("cache_size", "cache_s", "max_length", "window", "action", "actions", "codes"),
        "categories",
    )
)
# Settings of kinds that are asked over HTTP.
_REMOTE_FIELDS = frozenset({"url", "api_key_env", "retries", "calls_per_minute"})
# Raise this when texts are sent in another form, or replies read in another way: both may change
# scores.
_WIRE_VERSION = 2
# What demur itself finds comes from these, and nothing that a model could read.
_TEXTLESS_SURFACES = frozenset(
    (Surface.RATE, Surface.POLICY, Surface.MEMORY, Surface.MODEL, Surface.RUNTIME)
)
# The name of a variable; most keys that are mistaken for one hold other signs.
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
# What demur itself puts into a request.
_FIXED_REQUEST_FIELDS = ("messages", "model", "n", "prompt", "stream")
# Settings that only say how to reach the model: they do not change its scores.
_NOT_IN_DIGEST = frozenset(
    (
        *("api_key_env", "surfaces", "timeout_s", "retries", "on_failure", "concurrency"),
        *("calls_per_minute", "cache_size", "cache_s", "window", "action", "actions", "codes"),
    )
)


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to ask one model, and what its answers mean.

    Common to all kinds: `url` and `model`; `api_key_env`, the environment variable with its key;
    `surfaces` that it scores; `timeout_s` for one text with all `retries`; `on_failure`, where
    `closed` refuses and `signal_missing` leaves the signals out; `concurrency`, the calls at a
    time; `calls_per_minute`, its budget; `cache_size` texts whose scores are kept for `cache_s`
    seconds; `max_length` of one call's text, where longer ones are split; `window`, the characters
    of a streamed answer that are scored together.

    `codes` and `actions` give a category another code or action, and `action` is that of all
    others. `categories` are those to ask for, where the kind asks one by one. `flag_above` is the
    score above which a model without a verdict of its own flags.

    The rest belongs to single kinds: `prompt_shield` and `blocklists` of Azure; `guardrail`,
    `guardrail_version` and `region` of Bedrock; `template` of Model Armor; `logprobs` of Llama
    Guard; `prompt`, `reply_json`, `reply_regex`, `reply_valid` and `request`, further fields of
    each request, of a model of your own; `path`, `tokenizer`, `labels` and `several_labels` of
    local classifiers; `file` of a classifier that `demur guard train` made, whose card says code,
    action and threshold.
    """

    kind: ModelKind
    url: str = ""
    model: str = ""
    api_key_env: str = ""
    surfaces: tuple[Surface, ...] = (Surface.INPUT, Surface.OUTPUT)
    timeout_s: Positive = 5.0
    retries: Annotated[int, msgspec.Meta(ge=0, le=10)] = 1
    on_failure: OnScorerFailure = "closed"
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=256)] = 8
    calls_per_minute: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cache_size: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 1024
    cache_s: Annotated[float, msgspec.Meta(ge=0)] = 3600.0
    max_length: Annotated[int, msgspec.Meta(ge=200)] | None = None
    window: Annotated[int, msgspec.Meta(ge=40, le=100_000)] = 400
    action: Action = Action.BLOCK
    actions: dict[str, Action] = {}
    codes: dict[str, str] = {}
    categories: tuple[str, ...] = ()
    flag_above: Score | None = None
    prompt_shield: bool = False
    blocklists: tuple[str, ...] = ()
    guardrail: str = ""
    guardrail_version: str = "DRAFT"
    region: str = ""
    template: str = ""
    logprobs: bool = False
    prompt: str = ""
    reply_json: dict[str, str] = {}
    reply_regex: dict[str, str] = {}
    reply_valid: str = ""
    request: dict[str, Any] = {}
    path: str = ""
    file: str = ""
    tokenizer: str = ""
    labels: tuple[str, ...] = ()
    several_labels: bool = False

    @property
    def defaults(self) -> "KindDefaults":
        """The defaults of its kind."""
        return load_kinds()[self.kind]

    @property
    def digest(self) -> str:
        """The digest of what decides about scores: the model, and how it is asked."""
        fields = msgspec.to_builtins(self)
        asked = {name: value for name, value in fields.items() if name not in _NOT_IN_DIGEST}
        defaults = msgspec.to_builtins(self.defaults)
        return digest({**asked, "defaults": defaults, "wire": _WIRE_VERSION})

    @property
    def meanings(self) -> dict[str, CategoryMeaning]:
        """What each category means, by the name that rules write."""
        found = self._known_meanings
        for name in (*self.codes, *self.actions):
            if name not in found:
                found[name] = self._read_meaning(name, "CONTENT_OTHER", "")
        return found

    @property
    def known_categories(self) -> tuple[str, ...]:
        """The categories that the kind or the parser names, as rules write them."""
        return tuple(self._known_meanings)

    @property
    def _known_meanings(self) -> dict[str, CategoryMeaning]:
        found = {}
        for native, category in self.defaults.all_categories.items():
            name = category.name or category_name(native)
            found[name] = self._read_meaning(name, category.code, category.title)
        for name in (*self.reply_json, *self.reply_regex, *map(category_name, self.labels)):
            if name not in found:
                found[name] = self._read_meaning(name, "CONTENT_OTHER", "")
        return found

    def _read_meaning(self, name: str, code: str, title: str) -> CategoryMeaning:
        action = self.actions.get(name, self.action)
        return CategoryMeaning(self.codes.get(name, code), action, title)


class KindCategory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A category of a kind: its code, its name in rules, and its name for people."""

    code: str
    name: str = ""
    title: str = ""


class KindDefaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known about one kind of model; `kinds.yaml` explains the fields."""

    title: str
    url: str = ""
    model: str = ""
    api_key_env: str = ""
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    mapping: tuple[str, str] | None = None
    categories: dict[str, KindCategory | None] = {}
    asks: dict[str, str] = {}
    flag_above: float | None = None
    max_length: int = 20_000
    batch: int = 1

    @property
    def all_categories(self) -> dict[str, KindCategory]:
        """The categories by their native name, those of the provider's mapping included."""
        found: dict[str, KindCategory | None] = {}
        if self.mapping is not None:
            system, signal = self.mapping
            for one in load_system(system)[signal].values:
                if one.code is not None:
                    found[one.value] = KindCategory(code=one.code, title=one.meaning)
        found |= self.categories
        return {name: category for name, category in found.items() if category is not None}


@cache
def load_kinds() -> Mapping[str, KindDefaults]:
    """Return the kinds of models that can be brought."""
    text = (resources.files("demur.scorers") / "kinds.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), dict[str, KindDefaults])


def check_model_settings(name: str, settings: ModelSettings, registry: Registry) -> ModelSettings:
    """Return the settings with the defaults of their kind.

    Raises:
        InputError: A setting is missing, belongs to another kind, or cannot be used.
    """
    where, kind = f"guards.models.{name}", settings.defaults
    if not is_signal_name(name):
        help_text = "letters, digits, `_` and `-`, like `llama_guard`"
        raise InputError("rules cannot name this model", where=where, help=help_text)
    is_remote = settings.kind not in {*LOCAL_KINDS, TRAINED_KIND}
    own = {*_COMMON_FIELDS, *kind.needs, *kind.takes, *(_REMOTE_FIELDS if is_remote else ())}
    empty = ModelSettings(kind=settings.kind)
    for field in settings.__struct_fields__:
        if field not in own and getattr(settings, field) != getattr(empty, field):
            problem = f"`{field}` is no setting of the kind `{settings.kind}`"
            raise InputError(problem, where=f"{where}.{field}", help=_explain_field(field))
    for field in kind.needs:
        if not getattr(settings, field):
            problem = f"the kind `{settings.kind}` needs `{field}`"
            raise InputError(problem, where=f"{where}.{field}", help=_EXAMPLES.get(field))
    _check_reach(settings, where)
    names = ("url", "model", "api_key_env", "max_length", "flag_above")
    filled = {one: getattr(kind, one) for one in names if getattr(settings, one) in ("", None)}
    whole = msgspec.structs.replace(settings, **filled)
    if whole.url:
        _check_url(whole.url, f"{where}.url")
    _check_categories(whole, where)
    _check_meanings(whole, where, registry)
    _check_parser(whole, where)
    return whole


_EXAMPLES = {
    "url": "like `http://localhost:8000/v1`",
    "template": "like `projects/P/locations/europe-west4/templates/T`",
    "region": "like `eu-central-1`",
    "path": "a folder or file on this machine",
    "file": "a file that `demur guard train` made, like `refunds.npz`",
    "prompt": "the words that ask the model for a verdict",
}


def _explain_field(field: str) -> str:
    """Return where a setting belongs, and what to do instead of a threshold."""
    if field in _REMOTE_FIELDS:
        return "it belongs to kinds that are asked over HTTP"
    kinds = load_kinds().items()
    names = [name for name, kind in kinds if field in {*kind.needs, *kind.takes}]
    instead = "this kind has a verdict of its own: test its score in the policy, or set `actions`; "
    return f"{instead * (field == 'flag_above')}it belongs to {', '.join(names)}"


def _check_reach(settings: ModelSettings, where: str) -> None:
    """Check what says when and with which key the model is asked."""
    if not settings.surfaces:
        problem = "a model without a surface is never asked"
        help_text = 'leave `surfaces` out, or name one, like `["input"]`'
        raise InputError(problem, where=f"{where}.surfaces", help=help_text)
    for surface in settings.surfaces:
        if surface in _TEXTLESS_SURFACES:
            names = (name for name in Surface if name not in _TEXTLESS_SURFACES)
            problem = f"the surface `{surface}` has no text to score"
            help_text = f"one of {', '.join(names)}"
            raise InputError(problem, where=f"{where}.surfaces", help=help_text)
    if settings.api_key_env and not _VARIABLE.fullmatch(settings.api_key_env):
        # It may be the key itself, which must not be shown.
        problem = "not the name of an environment variable"
        help_text = "put the key into a variable, and its name here, like `GUARD_API_KEY`"
        raise InputError(problem, where=f"{where}.api_key_env", help=help_text)


def _check_url(url: str, where: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host or not url.isascii():
        raise InputError("not an HTTP address", where=where, help=_EXAMPLES["url"])
    if parts.username is not None or parts.query or parts.fragment:
        help_text = "name the environment variable with the key in `api_key_env`"
        raise InputError("an address holds no key", where=where, help=help_text)


def _check_categories(settings: ModelSettings, where: str) -> None:
    """Check the categories to ask for."""
    asks, known = settings.defaults.asks, settings.known_categories
    for category in settings.categories:
        if not asks:
            problem = f"the kind `{settings.kind}` tells all of its categories at once"
            help_text = "leave `categories` out; `actions` says what each of them does"
            raise InputError(problem, where=f"{where}.categories", help=help_text)
        if category not in known:
            raise _unknown_category(category, known, f"{where}.categories")


def _unknown_category(category: str, known: Iterable[str], where: str) -> InputError:
    names = tuple(known)
    listed = f"one of {', '.join(names)}" if names else "name it in `codes`"
    help_text = did_you_mean(category, names) or listed
    return InputError(f"unknown category `{category}`", where=where, help=help_text)


def _check_meanings(settings: ModelSettings, where: str, registry: Registry) -> None:
    """Check `codes` and `actions`: a name that no reply holds would silently do nothing."""
    known = settings.known_categories
    for field in ("codes", "actions"):
        for category in getattr(settings, field):
            if not is_signal_name(category):
                raise _unnameable_category(category, f"{where}.{field}")
    own = () if settings.kind == TRAINED_KIND else (*settings.codes, *settings.actions)
    for category in own:
        field = "codes" if category in settings.codes else "actions"
        # Further categories of a model have a code of their own, unless a parser names them all.
        is_declared = category in settings.codes and settings.kind != _OWN_KIND
        is_mistyped = category.casefold() in {one.casefold() for one in known}
        if category not in known and (is_mistyped or not is_declared):
            raise _unknown_category(category, known, f"{where}.{field}")
    for category, code in settings.codes.items():
        if code not in registry:
            problem = f"the code `{code}` is not registered"
            codes = [entry.code for entry in registry]
            help_text = did_you_mean(code, codes) or "`demur codes list` shows all codes"
            raise InputError(problem, where=f"{where}.codes.{category}", help=help_text)


def _check_parser(settings: ModelSettings, where: str) -> None:
    if settings.kind != _OWN_KIND:
        return
    _check_request(settings.request, f"{where}.request")
    if not settings.reply_json and not settings.reply_regex:
        help_text = "`reply_json` or `reply_regex`, by category"
        raise InputError("nothing says how to read the reply", where=where, help=help_text)
    if settings.reply_regex and not settings.reply_valid:
        problem = "`reply_regex` needs `reply_valid`"
        help_text = "a pattern that each usable reply matches: any other reply is a failure"
        raise InputError(problem, where=f"{where}.reply_valid", help=help_text)
    for name in (*settings.reply_json, *settings.reply_regex):
        if not is_signal_name(name):
            raise _unnameable_category(name, where)
    options = re2.Options()
    options.log_errors = False
    for name, pattern in {**settings.reply_regex, "reply_valid": settings.reply_valid}.items():
        try:
            re2.compile(pattern, options)
        except (re2.error, UnicodeError) as error:
            detail = error.args[0] if error.args else ""
            words = detail.decode(errors="replace") if isinstance(detail, bytes) else "no text"
            field = f"{where}.{name}" if name == "reply_valid" else f"{where}.reply_regex.{name}"
            help_text = "patterns are those of RE2, without look-around and back-references"
            problem = f"not a regular expression: {words}"
            raise InputError(problem, where=field, help=help_text) from None


def _unnameable_category(category: str, where: str) -> InputError:
    problem = f"rules cannot name the category `{category}`"
    help_text = f"letters, digits and `_`, like `{category_name(category)}`"
    return InputError(problem, where=where, help=help_text)


def _check_request(request: Mapping[str, Any], where: str) -> None:
    for field in request:
        if field in _FIXED_REQUEST_FIELDS:
            problem = f"`{field}` of a request is demur's own"
            help_text = "`request` adds fields like `response_format`; set `model` and `prompt`"
            raise InputError(problem, where=where, help=help_text)
    try:
        json.dumps(request, allow_nan=False)
    except (TypeError, ValueError):
        help_text = "texts, numbers, `true`, `false`, lists and tables"
        raise InputError("not JSON", where=where, help=help_text) from None
