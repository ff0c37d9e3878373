"""The contract of a scorer: a model that scores texts by category, and what its scores mean.

The pipeline calls scorers; guards, policy and classification see only the scores. They are recorded
as `signals.guards.NAME.CATEGORY`, so that a replay never asks a model again. What a model flags
becomes findings by a pure function of its scores.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import DemurError, InputError
from demur.model.finding import Action, Finding

SCORE_DIGITS = 4
# A record holds no more than this of what a model says.
MAX_CATEGORIES, MAX_CATEGORY_LENGTH = 1000, 100
# The signal that says why a model gave no scores.
FAILURE_SIGNAL = "failure"

OnScorerFailure = Literal["closed", "signal_missing"]
ScorerFailureCause = Literal[
    "failure", "timeout", "unreachable", "invalid_reply", "over_budget", "circuit_open"
]
_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_NO_NAME_CHARACTER = re.compile(r"[^A-Za-z0-9_]+")


class ScorerError(DemurError):
    """A scorer that gave no scores, and why."""

    def __init__(self, cause: ScorerFailureCause, problem: str, help: str = "") -> None:  # noqa: A002 - as in `DemurError`
        super().__init__(problem, help=help or None)
        self.cause: ScorerFailureCause = cause


class ScorerText(NamedTuple):
    """A text to score, and its surface; for an answer, with its prompt where that is known."""

    text: str
    prompt: str | None = None
    surface: Surface = Surface.INPUT


class CategoryScores(NamedTuple):
    """The scores of one text: numbers from 0 to 1 by category, and the categories flagged."""

    scores: Mapping[str, float]
    flagged: frozenset[str] = frozenset()


class CategoryMeaning(NamedTuple):
    """What a flagged category means: the code and action of its finding, and where it counts.

    Without `surfaces` it counts on each surface of the scorer. `title` names it for people.
    """

    code: str
    action: Action = Action.BLOCK
    title: str = ""
    surfaces: frozenset[str] | None = None


OTHER_CATEGORY = CategoryMeaning(ReasonCode.CONTENT_OTHER)
# The name under which a scorer says what all other categories mean.
ANY_CATEGORY = "*"


class Scorer(Protocol):
    """A model that the pipeline asks in addition to the guards of a surface.

    `score` returns the scores of each text in order, always with the same categories, or raises
    `ScorerError`. A scorer with an `ascore` is awaited in async code. If it `is_local`, it neither
    waits nor takes long, and is called in the caller's thread; any other scorer gets a worker
    thread and has `timeout_s`. `digest` changes whenever the scores of a text may change.
    `meanings` says what flagged categories mean. A category that it does not name means what `*`
    does, or else CONTENT_OTHER.
    """

    @property
    def name(self) -> str:
        """Its name in signals, findings and settings."""

    @property
    def model(self) -> str:
        """The model's own name, for the record."""

    @property
    def digest(self) -> str:
        """The digest of the model, or of what was asked of it."""

    @property
    def surfaces(self) -> frozenset[Surface]:
        """The surfaces whose texts it scores."""

    @property
    def meanings(self) -> Mapping[str, CategoryMeaning]:
        """What its categories mean."""

    @property
    def timeout_s(self) -> float:
        """How long the pipeline waits for its scores."""

    @property
    def on_failure(self) -> OnScorerFailure:
        """Whether a failure refuses, or only leaves its signals missing."""

    @property
    def is_local(self) -> bool:
        """Whether it runs in the caller's thread."""

    def score(self, texts: Sequence[ScorerText]) -> Sequence[CategoryScores]:
        """Return the scores of each text."""


def category_name(native: str) -> str:
    """Return a provider's category as rules name it: `hate_threatening` for `hate/threatening`."""
    name = _NO_NAME_CHARACTER.sub("_", native).strip("_")
    return name if _NAME.fullmatch(name) else f"_{name}"


def is_signal_name(name: str) -> bool:
    """Return whether rules can name a signal or a group of signals like this."""
    return _NAME.fullmatch(name) is not None


def check_scores(found: Any) -> CategoryScores:
    """Return scores in the form that is recorded: rounded, in the order of their names.

    Raises:
        ScorerError: They are no scores.
    """
    scores = getattr(found, "scores", None)
    if not isinstance(scores, Mapping):
        raise ScorerError("invalid_reply", f"a `{type(found).__name__}` holds no scores")
    # A category may be flagged without a score.
    names = {*scores, *found.flagged}
    if len(names) > MAX_CATEGORIES:
        raise ScorerError("invalid_reply", f"more than {MAX_CATEGORIES} categories")
    for name in names:
        if not isinstance(name, str) or not is_signal_name(name) or name == FAILURE_SIGNAL:
            raise ScorerError("invalid_reply", f"a category cannot be called `{str(name)[:40]}`")
        if len(name) > MAX_CATEGORY_LENGTH:
            raise ScorerError("invalid_reply", f"the name of `{name[:40]}` is too long")
        value = scores.get(name, 0.0)
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ScorerError("invalid_reply", f"the score of `{name}` is not between 0 and 1")
    rounded = {name: round(float(scores[name]), SCORE_DIGITS) for name in sorted(scores)}
    return CategoryScores(rounded, frozenset(found.flagged))


def merge_scores(found: Iterable[CategoryScores]) -> CategoryScores:
    """Return the scores of several texts as those of one: the highest of each category."""
    scores: dict[str, float] = {}
    flagged: frozenset[str] = frozenset()
    for one in found:
        flagged |= one.flagged
        for name, value in one.scores.items():
            scores[name] = max(value, scores.get(name, 0.0))
    return CategoryScores({name: scores[name] for name in sorted(scores)}, flagged)


def find_flagged(
    name: str,
    found: CategoryScores,
    meanings: Mapping[str, CategoryMeaning],
    surface: Surface | str,
) -> Iterator[Finding]:
    """Yield a finding for each flagged category that counts on the surface."""
    other = meanings.get(ANY_CATEGORY, OTHER_CATEGORY)
    for category in sorted(found.flagged):
        meaning = meanings.get(category, other)
        if meaning.surfaces is not None and surface not in meaning.surfaces:
            continue
        title = f" ({meaning.title})" if meaning.title else ""
        evidence: dict[str, Any] = {"model": name, "category": category}
        if category in found.scores:
            evidence["score"] = found.scores[category]
        yield Finding(
            code=meaning.code,
            surface=Surface(surface),
            detail=f"the model `{name}` flags `{category}`{title}"[:120],
            evidence=evidence,
            action=meaning.action,
        )


def check_scorer(scorer: Any) -> None:
    """Check what a scorer says about itself.

    Raises:
        InputError: It is no scorer, or its name cannot be used.
    """
    names = ("name", "model", "digest", "surfaces", "meanings", "timeout_s", "on_failure")
    lacking = [name for name in (*names, "is_local", "score") if not hasattr(scorer, name)]
    if lacking:
        problem = f"a `{type(scorer).__name__}` is no scorer: it has no `{lacking[0]}`"
        raise InputError(problem, where="scorers", help="see `demur.scorers.Scorer`")
    where = f"scorer `{scorer.name}`"
    if not is_signal_name(scorer.name):
        help_text = "letters, digits, `_` and `-`, like `llama_guard`"
        raise InputError("rules cannot name this scorer", where=where, help=help_text)
    if scorer.on_failure not in {"closed", "signal_missing"}:
        problem = f"unknown `on_failure` value `{scorer.on_failure}`"
        raise InputError(problem, where=where, help="`closed` or `signal_missing`")
    if not 0 < scorer.timeout_s <= 3600:
        raise InputError("a timeout is above 0 and at most 3600 seconds", where=where)
