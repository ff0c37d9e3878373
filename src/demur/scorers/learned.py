"""Our own models as a scorer: harm and injection in requests, planted instructions in documents.

The models may escalate injection in prompts and in what tools and searches return. Harm only
warns: it holds where a rule or a policy agrees. Thresholds come with the models.
"""

import hashlib
from collections.abc import Iterator, Sequence

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.learned import ScoresText, load_document_model, load_request_model
from demur.model.finding import Action
from demur.scorers.contract import (
    CategoryMeaning,
    CategoryScores,
    OnScorerFailure,
    ScorerText,
    merge_scores,
)

LEARNED_NAME = "learned"
_INPUT = frozenset({Surface.INPUT})
_RETURNED = frozenset({Surface.TOOL_RESULT, Surface.RETRIEVAL})
LEARNED_SURFACES = _INPUT | _RETURNED
_ESCALATED = {
    "injection": CategoryMeaning(
        ReasonCode.CONTEXT_INJECTION, Action.ESCALATE, "prompt injection", _INPUT
    ),
    "planted": CategoryMeaning(
        ReasonCode.CONTEXT_INJECTION, Action.ESCALATE, "planted instructions", _RETURNED
    ),
}
_WARN_PREFIX = "possible_"
_WARNED = {
    f"{_WARN_PREFIX}{name}": meaning._replace(action=Action.WARN, title=f"possible {meaning.title}")
    for name, meaning in _ESCALATED.items()
}
_HARM, _HARM_PREFIX = "harm", "harm_"
# CONTENT_SELF_HARM is left out: its obligations would hold the request, and harm only warns.
_FAMILIES = {
    "crime": ReasonCode.CONTENT_CRIME,
    "cyber": ReasonCode.CONTENT_CYBER,
    "fraud": ReasonCode.CONTENT_FRAUD,
    "hate": ReasonCode.CONTENT_HATE,
    "misinformation": ReasonCode.CONTENT_MISINFORMATION,
    "privacy": ReasonCode.CONTENT_PRIVACY,
    "sexual": ReasonCode.CONTENT_SEXUAL,
    "violence": ReasonCode.CONTENT_VIOLENCE,
}
# A document is scored in windows, since an order may stand anywhere in it.
_WINDOW, _STRIDE, _MAX_WINDOWS = 1500, 1300, 64


class LearnedScorer:
    """Scores prompts and returned texts by our own models. It neither waits nor asks anybody."""

    name = LEARNED_NAME
    model = "demur-models"
    surfaces = LEARNED_SURFACES
    timeout_s = 60.0
    on_failure: OnScorerFailure = "closed"
    is_local = True

    def __init__(self, requests: ScoresText, documents: ScoresText) -> None:
        self._requests = requests
        self._documents = documents
        both = f"{requests.digest}\n{documents.digest}"
        self.digest = hashlib.sha256(both.encode()).hexdigest()
        names = (*requests.score(""), *documents.score(""))
        self.meanings = {name: _category_meaning(name) for name in names} | _WARNED

    def score(self, texts: Sequence[ScorerText]) -> list[CategoryScores]:
        """Return the scores of each text."""
        return [
            _score_windows(self._documents, one.text)
            if one.surface in _RETURNED
            else _score_text(self._requests, one.text)
            for one in texts
        ]


def _split_windows(text: str) -> Iterator[str]:
    """Yield overlapping parts of a document; of a very long one, those of both ends."""
    starts = list(range(0, max(1, len(text) - _WINDOW + _STRIDE), _STRIDE))
    if len(starts) > _MAX_WINDOWS:
        starts = [*starts[: _MAX_WINDOWS // 2], *starts[-_MAX_WINDOWS // 2 :]]
    for start in starts:
        yield text[start : start + _WINDOW]


def _score_windows(model: ScoresText, text: str) -> CategoryScores:
    found = merge_scores(_score_text(model, part) for part in _split_windows(text))
    # One window may warn of what another one shows clearly.
    weaker = {f"{_WARN_PREFIX}{name}" for name in found.flagged}
    return found._replace(flagged=found.flagged - weaker)


def _score_text(model: ScoresText, text: str) -> CategoryScores:
    scores = model.score(text)
    flagged = {name for name, least in model.thresholds.items() if scores[name] >= least}
    flagged |= {
        f"{_WARN_PREFIX}{name}"
        for name, least in model.warn_thresholds.items()
        if scores[name] >= least and name not in flagged
    }
    families = [name for name in scores if name.startswith(_HARM_PREFIX)]
    if _HARM in flagged and families:
        # Harm is named by its likeliest family.
        flagged ^= {_HARM, max(families, key=scores.__getitem__)}
    return CategoryScores(scores, frozenset(flagged))


def load_learned_scorers() -> tuple[LearnedScorer, ...]:
    """Return the scorer by our own models, or none if `demur-models` is not installed.

    Raises:
        LearnedModelError: It is installed and cannot be used.
    """
    requests, documents = load_request_model(), load_document_model()
    if requests is None or documents is None:
        return ()
    return (LearnedScorer(requests, documents),)


def _category_meaning(name: str) -> CategoryMeaning:
    if name in _ESCALATED:
        return _ESCALATED[name]
    code = _FAMILIES.get(name.removeprefix(_HARM_PREFIX), ReasonCode.CONTENT_OTHER)
    return CategoryMeaning(code, Action.WARN, "possible harm", _INPUT)
