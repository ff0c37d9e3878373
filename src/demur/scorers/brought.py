"""A model that a user brings, as a scorer: asked over HTTP, or run on this machine.

Scores are kept by the digest of the text. Calls are limited in number, rate and time, and a model
that keeps failing is left alone for a while. Each of these ends in `ScorerError`, and so in a
refusal unless the operator chose otherwise.
"""

import os
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from demur.codes.registry import Registry
from demur.errors import DemurError
from demur.scorers.client import AwsCredentials, JsonClient, sign_aws_request, system_jitter
from demur.scorers.contract import (
    ANY_CATEGORY,
    OTHER_CATEGORY,
    CategoryScores,
    ScorerError,
    ScorerText,
    merge_scores,
)
from demur.scorers.guard_models import (
    build_granite,
    build_llama_guard,
    build_own,
    build_qwen,
    build_shieldgemma,
    parse_granite,
    parse_llama_guard,
    parse_own,
    parse_qwen,
    parse_shieldgemma,
)
from demur.scorers.local_models import open_local_model
from demur.scorers.moderation import (
    WireCall,
    build_armor,
    build_azure,
    build_bedrock,
    build_openai,
    parse_armor,
    parse_azure,
    parse_bedrock,
    parse_openai,
    unreadable_reply,
)
from demur.scorers.settings import (
    LOCAL_KINDS,
    TRAINED_KIND,
    ModelSettings,
    check_model_settings,
)
from demur.scorers.trained import open_trained_guard

# A harmful sentence across the end of one part is whole in the next.
_OVERLAP = 200
MAX_FAILURES = 5
_PAUSE_S = 30.0
# A spent budget says nothing about the model, and a reply that cannot be read may be due to its
# text: nobody may turn a model off by sending texts that confuse it.
_CAUSES_OF_ONE_TEXT = frozenset({"over_budget", "invalid_reply"})
_MINUTE_S = 60.0


class BusyModelError(ScorerError):
    """A call was not made in time because others were: the model itself may be well."""

    def __init__(self) -> None:
        help_text = "raise `concurrency`, or `timeout_s`"
        super().__init__("timeout", "it took too long: other calls were not done", help_text)


class WireFormat(NamedTuple):
    """How a kind of model is asked and read."""

    build: Callable[[ModelSettings, Sequence[ScorerText]], Iterator[WireCall]]
    parse: Callable[[ModelSettings, WireCall, object], Iterator[CategoryScores]]


WIRE_FORMATS: Mapping[str, WireFormat] = {
    "openai_moderation": WireFormat(build_openai, parse_openai),
    "azure_content_safety": WireFormat(build_azure, parse_azure),
    "bedrock_guardrails": WireFormat(build_bedrock, parse_bedrock),
    "google_model_armor": WireFormat(build_armor, parse_armor),
    "llama_guard": WireFormat(build_llama_guard, parse_llama_guard),
    "shieldgemma": WireFormat(build_shieldgemma, parse_shieldgemma),
    "granite_guardian": WireFormat(build_granite, parse_granite),
    "qwen3guard": WireFormat(build_qwen, parse_qwen),
    "openai_compatible": WireFormat(build_own, parse_own),
}


class ModelBackend(Protocol):
    """Scores texts by a model, without caches and limits."""

    def score(self, texts: Sequence[ScorerText], deadline: float) -> list[CategoryScores]:
        """Return the scores of each text, or raise `ScorerError`."""


class CircuitBreaker:
    """Leaves a model alone for a while after it failed several times in a row."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = Lock()
        self._failures = 0
        self._closed_until = 0.0

    def admit(self) -> None:
        """Let a call pass.

        Raises:
            ScorerError: The model failed too often, and the pause is not over.
        """
        with self._lock:
            if self._failures < MAX_FAILURES:
                return
            if self._monotonic() < self._closed_until:
                problem = f"it failed {self._failures} times in a row, and is asked again later"
                raise ScorerError("circuit_open", problem)
            # One call tries; others wait for what it finds.
            self._closed_until = self._monotonic() + _PAUSE_S

    def report(self, *, failed: bool | None) -> None:
        """Take note of how a call ended; None says nothing about the model."""
        with self._lock:
            if failed is None:
                # If this call was to find out whether the model is back, the next one is.
                self._closed_until = self._monotonic()
                return
            self._failures = self._failures + 1 if failed else 0
            if self._failures >= MAX_FAILURES:
                self._closed_until = self._monotonic() + _PAUSE_S


class CallBudget:
    """Admits a number of calls a minute."""

    def __init__(self, calls: int | None, monotonic: Callable[[], float]) -> None:
        self._calls, self._monotonic = calls, monotonic
        self._lock = Lock()
        self._times: deque[float] = deque()

    def spend(self) -> None:
        """Count a call.

        Raises:
            ScorerError: The calls of this minute are spent.
        """
        if self._calls is None:
            return
        now = self._monotonic()
        with self._lock:
            while self._times and self._times[0] <= now - _MINUTE_S:
                self._times.popleft()
            if len(self._times) >= self._calls:
                problem = f"{self._calls} calls a minute are spent"
                raise ScorerError("over_budget", problem, "raise `calls_per_minute`")
            self._times.append(now)


class ScoreCache:
    """Keeps the scores of texts by their digest; it holds no text."""

    def __init__(self, size: int, seconds: float, monotonic: Callable[[], float]) -> None:
        self._size, self._seconds, self._monotonic = size, seconds, monotonic
        self._lock = Lock()
        self._kept: OrderedDict[str, tuple[float, CategoryScores]] = OrderedDict()

    def find(self, key: str) -> CategoryScores | None:
        """Return the scores that are kept under a key, if they are not too old."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept[0] < self._monotonic() - self._seconds:
                return None
            self._kept.move_to_end(key)
            return kept[1]

    def keep(self, key: str, scores: CategoryScores) -> None:
        """Keep scores; those that were not used for longest give way."""
        with self._lock:
            self._kept[key] = (self._monotonic(), scores)
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)


class RemoteModel:
    """Asks a model over HTTP, several calls at a time."""

    def __init__(
        self,
        settings: ModelSettings,
        client: JsonClient,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._client = settings, client
        self._format = WIRE_FORMATS[settings.kind]
        self._slots = BoundedSemaphore(settings.concurrency)
        self._budget = CallBudget(settings.calls_per_minute, monotonic)
        self._monotonic = monotonic
        self._pool: ThreadPoolExecutor | None = None
        self._process, self._lock = os.getpid(), Lock()

    def score(self, texts: Sequence[ScorerText], deadline: float) -> list[CategoryScores]:
        """Return the scores of each text, or raise `ScorerError`."""
        calls = list(self._format.build(self._settings, texts))
        found: dict[int, list[CategoryScores]] = {}
        for call, scores in zip(calls, self._ask_all(calls, deadline), strict=True):
            for text, one in zip(call.texts, scores, strict=True):
                found.setdefault(id(text), []).append(one)
        return [merge_scores(found[id(text)]) for text in texts]

    def _ask_all(self, calls: list[WireCall], deadline: float) -> Iterator[list[CategoryScores]]:
        if len(calls) == 1:
            yield self._ask(calls[0], deadline)
            return
        yield from self._open_pool().map(lambda call: self._ask(call, deadline), calls)

    def _open_pool(self) -> ThreadPoolExecutor:
        if self._process != os.getpid():
            # Neither threads nor the holder of a lock survive a fork.
            self._process, self._lock, self._pool = os.getpid(), Lock(), None
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._settings.concurrency, "demur-model")
            return self._pool

    def _ask(self, call: WireCall, deadline: float) -> list[CategoryScores]:
        if not self._slots.acquire(timeout=max(0.0, deadline - self._monotonic())):
            raise BusyModelError
        try:
            reply = self._client.post(call.path, call.body, deadline, admit=self._budget.spend)
        finally:
            self._slots.release()
        try:
            return list(self._format.parse(self._settings, call, reply))
        except DemurError:
            raise
        except Exception as error:  # noqa: BLE001 - a reply may have any shape
            raise unreadable_reply(type(error).__name__) from None


class BroughtModel:
    """A scorer that a user brings. Safe to share between threads.

    It splits long texts, keeps scores, and leaves a failing model alone for a while.
    """

    def __init__(
        self,
        name: str,
        settings: ModelSettings,
        backend: ModelBackend,
        *,
        digest: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.settings = name, settings
        # A trained classifier takes less time than a thread.
        self.is_local = settings.kind == TRAINED_KIND
        # The name of a folder, and not the machine's paths, goes on record.
        local = Path(settings.path).name
        self.model = settings.model or local or settings.guardrail or settings.template
        self.digest = digest or settings.digest
        self.surfaces = frozenset(settings.surfaces)
        other = OTHER_CATEGORY._replace(action=settings.action)
        self.meanings = {**settings.meanings, ANY_CATEGORY: other}
        self.timeout_s, self.on_failure = settings.timeout_s, settings.on_failure
        self.concurrency, self.window = settings.concurrency, settings.window
        self._backend, self._monotonic = backend, monotonic
        self._cache = ScoreCache(settings.cache_size, settings.cache_s, monotonic)
        self._breaker = CircuitBreaker(monotonic)

    def score(self, texts: Sequence[ScorerText]) -> list[CategoryScores]:
        """Return the scores of each text.

        Raises:
            ScorerError: The model gave none.
        """
        limit = self.settings.max_length or self.settings.defaults.max_length
        parts = [list(split_text(one, limit)) for one in texts]
        keys = {self._key(part): part for listed in parts for part in listed}
        found = {key: scores for key in keys if (scores := self._cache.find(key)) is not None}
        asked = [key for key in keys if key not in found]
        if asked:
            answers = self._ask_model([keys[key] for key in asked])
            for key, scores in zip(asked, answers, strict=True):
                self._cache.keep(key, scores)
                found[key] = scores
        return [merge_scores(found[self._key(part)] for part in listed) for listed in parts]

    def _ask_model(self, texts: list[ScorerText]) -> list[CategoryScores]:
        self._breaker.admit()
        try:
            scores = self._backend.score(texts, self._monotonic() + self.timeout_s)
        except ScorerError as error:
            # The parts of a long text may take too long together, and no other text would.
            is_long = error.cause == "timeout" and len(texts) > 1
            is_due_to_text = is_long or error.cause in _CAUSES_OF_ONE_TEXT
            says_nothing = is_due_to_text or isinstance(error, BusyModelError)
            self._breaker.report(failed=None if says_nothing else True)
            raise
        self._breaker.report(failed=False)
        return scores

    def _key(self, one: ScorerText) -> str:
        # The parts are quoted, so that no text can pass for a text with a prompt.
        parts = repr((one.text, one.prompt, str(one.surface), self.digest))
        return sha256(parts.encode()).hexdigest()


def split_text(one: ScorerText, limit: int) -> Iterator[ScorerText]:
    """Yield the parts of a text that fit into one call, which overlap.

    Of a longer prompt the end goes with each part; the prompt itself was scored as an input.
    """
    if one.prompt is not None and len(one.prompt) > limit:
        one = one._replace(prompt=one.prompt[-limit:])
    # INVARIANT: each character of a text is scored, however long the text is.
    step = limit - _OVERLAP if limit > 2 * _OVERLAP else max(1, limit // 2)
    start = 0
    while True:
        yield one._replace(text=one.text[start : start + limit])
        if start + limit >= len(one.text):
            return
        start += step


def open_scorer(
    name: str,
    settings: ModelSettings,
    *,
    registry: Registry | None = None,
    environment: Mapping[str, str] = os.environ,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    jitter: Callable[[], float] = system_jitter,
) -> BroughtModel:
    """Return the scorer that settings describe; it is asked for the first time when it is used.

    Raises:
        InputError: A setting is invalid.
    """
    registry = Registry.load() if registry is None else registry
    whole = check_model_settings(name, settings, registry)
    if whole.kind == TRAINED_KIND:
        whole, trained = open_trained_guard(name, whole, registry)
        return BroughtModel(name, whole, trained, digest=trained.digest, monotonic=monotonic)
    if whole.kind in LOCAL_KINDS:
        local = open_local_model(name, whole)
        return BroughtModel(name, whole, local, digest=local.digest, monotonic=monotonic)
    client = JsonClient(
        _service_url(whole),
        lambda path, body: _make_headers(whole, environment, path, body),
        retries=whole.retries,
        monotonic=monotonic,
        sleep=sleep,
        jitter=jitter,
    )
    remote = RemoteModel(whole, client, monotonic=monotonic)
    return BroughtModel(name, whole, remote, monotonic=monotonic)


def _service_url(settings: ModelSettings) -> str:
    if settings.url:
        return settings.url
    if settings.kind == "bedrock_guardrails":
        return f"https://bedrock-runtime.{settings.region}.amazonaws.com"
    parts = settings.template.split("/")
    location = parts[3] if len(parts) > 3 else "us"
    return f"https://modelarmor.{location}.rep.googleapis.com"


_KEY_HEADERS = {"azure_content_safety": ("Ocp-Apim-Subscription-Key", "{}")}
_BEARER = ("Authorization", "Bearer {}")
# Whatever looks otherwise may be the key itself, and is not shown.
_KEY_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", re.ASCII)


def _make_headers(
    settings: ModelSettings, environment: Mapping[str, str], path: str, body: bytes
) -> dict[str, str]:
    """Return the headers that identify the caller; keys are read for each request, and not kept."""
    variable = settings.api_key_env
    if settings.kind == "bedrock_guardrails" and not variable:
        return _sign_bedrock(settings, environment, path, body)
    if not variable:
        return {}
    key = _read_key(environment, variable)
    if not key:
        named = f"`{variable}`" if _KEY_VARIABLE.fullmatch(variable) else "of `api_key_env`"
        problem = f"the environment variable {named} holds no key"
        raise ScorerError("unreachable", problem, "set it, or name another in `api_key_env`")
    name, pattern = _KEY_HEADERS.get(settings.kind, _BEARER)
    return {name: pattern.format(key)}


def _read_key(environment: Mapping[str, str], variable: str) -> str:
    """Return a key without spaces around it; empty if no header can hold it."""
    key = environment.get(variable, "").strip()
    return key if key.isascii() and key.isprintable() else ""


def _sign_bedrock(
    settings: ModelSettings, environment: Mapping[str, str], path: str, body: bytes
) -> dict[str, str]:
    bearer = _read_key(environment, "AWS_BEARER_TOKEN_BEDROCK")
    if bearer:
        return {"Authorization": f"Bearer {bearer}"}
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    credentials = AwsCredentials(*(_read_key(environment, name) for name in names))
    if not credentials.access_key or not credentials.secret_key:
        help_text = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_BEARER_TOKEN_BEDROCK"
        raise ScorerError("unreachable", "the environment holds no credentials of AWS", help_text)
    return sign_aws_request(
        credentials,
        method="POST",
        host=urlsplit(_service_url(settings)).netloc,
        path=path,
        headers={"content-type": "application/json"},
        body=body,
        region=settings.region,
        service="bedrock",
        now=datetime.now(tz=UTC),  # noqa: TID251 - a signature holds the real time
    )
