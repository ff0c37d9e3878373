"""Signals in rules: which rules need one, and which cannot be judged because one is missing.

A signal is a number, a text or a boolean that comes in beside the request, such as the score of a
model. A comparison with a missing signal is open: it may turn out true or false. A rule that
refuses and that could match, depending on an open comparison, leaves the request unjudged. So
leaving out a score gains nothing. A rule that also tests `exists: true` makes its signal optional.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

from demur.codes.vocabulary import Verdict
from demur.policy.conditions import SIGNAL_ROOT, absent_signals, signal_paths
from demur.policy.facts import (
    FALSE,
    MISSING,
    TRUE,
    compile_comparison,
    fetch_fact,
    fetch_operand,
    join_alternatives,
    negate_state,
)
from demur.policy.policy import All, Compare, Condition, Not, Operator, Policy, PolicyRule

_PRESENCE = {Operator.EXISTS, Operator.MISSING}


class MissingSignal(NamedTuple):
    """A signal that a rule needs and that is missing."""

    rule_id: str
    path: str


class SignalGaps:
    """Finds the rules of a policy that refuse and cannot be judged without a missing signal."""

    def __init__(self, policy: Policy) -> None:
        self._rates = policy.rates
        self._rules = [
            rule
            for rule in policy.rules
            if not rule.shadow
            and rule.then.verdict is not Verdict.ALLOW
            and signal_paths(rule.condition)
        ]
        found = (signal_paths(rule.condition) for rule in self._rules)
        self._paths = frozenset[str]().union(*found)

    def find(
        self, facts: Mapping[str, Any], matched: Sequence[PolicyRule]
    ) -> tuple[MissingSignal, ...]:
        """Return the missing signals that leave a rule open.

        A rule that matched because a signal is missing has handled that signal. Rules that read
        findings do not count for this: a finding never relaxes a decision.
        """
        # INVARIANT: no ALLOW rests on a missing signal.
        if all(fetch_fact(facts, path) is not MISSING for path in self._paths):
            return ()
        refusing = (rule for rule in matched if not rule.shadow and not rule.reads_findings)
        handled = {path for rule in refusing for path in absent_signals(rule.condition)}
        return tuple(
            MissingSignal(rule.id, path)
            for rule in self._rules
            for path in self._judge(rule.condition, facts).deciding_paths
            if path not in handled
        )

    def _judge(self, condition: Condition, facts: Mapping[str, Any]) -> "_OpenState":
        match condition:
            case Compare():
                return self._compare(condition, facts)
            case Not(part):
                return _combine(lambda state, _: negate_state(state), self._judge(part, facts))
            case All(parts):
                judged = (self._judge(part, facts) for part in parts)
                return reduce(lambda one, other: _combine(min, one, other), judged, _HOLDS)
            case _:
                judged = (self._judge(part, facts) for part in condition.parts)
                return reduce(lambda one, other: _combine(_either, one, other), judged, _FAILS)

    def _compare(self, compare: Compare, facts: Mapping[str, Any]) -> "_OpenState":
        path = compare.path
        fact = fetch_operand(facts, path, self._rates)
        if fact is MISSING and path.startswith(SIGNAL_ROOT) and compare.operator not in _PRESENCE:
            return _OpenState(frozenset({TRUE, FALSE}), {path: frozenset({(TRUE, FALSE)})})
        return _OpenState(frozenset({compile_comparison(compare)(fact)}), {})


class _OpenState(NamedTuple):
    """The states that a condition may have, depending on its open comparisons.

    For each missing signal, `pairs` holds the states with and without one of its comparisons.
    """

    states: frozenset[int]
    pairs: Mapping[str, frozenset[tuple[int, int]]]

    @property
    def deciding_paths(self) -> Iterable[str]:
        """The missing signals on which it depends whether the condition holds."""
        for path, pairs in self.pairs.items():
            if any((one == TRUE) != (other == TRUE) for one, other in pairs):
                yield path


_HOLDS = _OpenState(frozenset({TRUE}), {})
_FAILS = _OpenState(frozenset({FALSE}), {})


def _combine(
    join: Callable[[int, int], int], one: _OpenState, other: _OpenState = _HOLDS
) -> _OpenState:
    pairs: dict[str, frozenset[tuple[int, int]]] = {}
    for side, others in ((one, other.states), (other, one.states)):
        for path, own in side.pairs.items():
            joined = {(join(a, c), join(b, c)) for (a, b), c in product(own, others)}
            pairs[path] = pairs.get(path, frozenset()) | joined
    states = frozenset(join(a, b) for a, b in product(one.states, other.states))
    return _OpenState(states, pairs)


def _either(one: int, other: int) -> int:
    return join_alternatives((one, other))
