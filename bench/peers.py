"""The peers, each behind the same small face: the same rules in its own language.

None of them is needed: whoever measures asks `missing_peers` and goes on with the others.
"""

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from workload import Rule, Test

from demur.codes import Registry
from demur.policy.evaluation import CompiledPolicy
from demur.policy.loader import parse_policy

__all__ = [
    "PEERS",
    "Answer",
    "Engine",
    "Lumyn",
    "demur_engine",
    "demur_policy",
    "have",
    "missing_peers",
]

_HEAD = {"schema_version": "policy.v1", "policy_id": "bench", "policy_version": "1.0.0"}
_PRECEDENCE = ("ALLOW", "ESCALATE", "ABSTAIN", "DENY")
_DEFAULT = "ESCALATE"
_DEFAULT_CODE = "NO_MATCH_DEFAULT_ESCALATE"
_ALLOW_CODE = "REFUND_SMALL_LOW_RISK"
_SYMBOLS = {"eq": "==", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_json = msgspec.json.encode
_plain = msgspec.json.decode


class Answer(NamedTuple):
    """What an engine concluded, in words that all of them share."""

    verdict: str
    rules: frozenset[str]


class Engine(NamedTuple):
    """An engine with rules in it.

    `prepare` gives a request the form that the engine takes, and is not measured; `run` is,
    and ends with a verdict and the ids of the rules that matched; `answer` reads them.
    """

    prepare: Callable[[dict[str, Any]], Any]
    run: Callable[[Any], Any]
    answer: Callable[[Any], Answer]


def have(module: str) -> bool:
    """Return whether a peer's module is installed."""
    return find_spec(module) is not None


def missing_peers() -> list[str]:
    """Return the distributions that are not installed."""
    return [peer.distribution for peer in PEERS.values() if not have(peer.module)]


def _as_they_are(request: dict[str, Any]) -> dict[str, Any]:
    return request


# -- demur -------------------------------------------------------------------------------------


def demur_policy(rules: Iterable[Rule]) -> str:
    """Return the rules as a policy of demur."""
    listed = [
        {
            "id": rule.id,
            "stage": rule.stage,
            "if": {"all": [{"action_type": rule.action}, _condition(rule)]},
            "then": {"verdict": rule.verdict, "reason_codes": [rule.code] if rule.code else []},
        }
        for rule in rules
    ]
    return _json({**_HEAD, "rules": listed}).decode()


def _condition(rule: Rule) -> dict[str, Any]:
    tests = [
        {
            "amount_usd" if test.field == "amount" else f"evidence.{test.field}": {
                test.operator: True if test.operator == "missing" else test.value
            }
        }
        for test in rule.tests
    ]
    return {"any" if rule.any_of else "all": tests}


def demur_engine(rules: Sequence[Rule]) -> Engine:
    """Return demur's own compiled policy."""
    registry = Registry.load()
    compiled = CompiledPolicy(parse_policy(demur_policy(rules), registry=registry))
    return Engine(
        _as_they_are,
        compiled.evaluate,
        lambda found: Answer(found.verdict.value, frozenset(found.matched_rules)),
    )


# -- lumyn -------------------------------------------------------------------------------------


def _lumyn_policy(rules: Iterable[Rule]) -> dict[str, Any]:
    defaults = {
        "mode": "enforce",
        "default_verdict": _DEFAULT,
        "default_reason_code": _DEFAULT_CODE,
    }
    listed = [
        {
            "id": rule.id,
            "stage": rule.stage,
            "when": {"action_type": rule.action},
            "if_any" if rule.any_of else "if_all": [_lumyn_test(test) for test in rule.tests],
            "then": {"verdict": rule.verdict, "reason_codes": [rule.code or _ALLOW_CODE]},
        }
        for rule in rules
    ]
    return {**_HEAD, "defaults": defaults, "rules": listed}


def _lumyn_test(test: Test) -> dict[str, Any]:
    field = "amount_usd" if test.field == "amount" else f"evidence.{test.field}"
    suffix = {"missing": "is", "eq": "is"}.get(test.operator, test.operator)
    return {f"{field}_{suffix}": list(test.value) if test.operator == "in" else test.value}


def _lumyn_engine(rules: Sequence[Rule]) -> Engine:
    evaluate = import_module("lumyn.engine.evaluator_v1").evaluate_policy_v1
    policy = _lumyn_policy(rules)

    def answer(found: Any) -> Answer:
        ids = (rule.rule_id for rule in found.matched_rules if rule.stage != "DEFAULT")
        return Answer(found.verdict, frozenset(ids))

    return Engine(_as_they_are, lambda request: evaluate(request, policy=policy), answer)


class Lumyn:
    """The whole of lumyn over some rules, without its memory, in a folder of its own."""

    def __init__(self, rules: Sequence[Rule], folder: Path) -> None:
        core = import_module("lumyn.core.decide")
        self._decide, self._decide_v1 = core.decide, core.decide_v1
        folder.mkdir(parents=True, exist_ok=True)
        self._policy = folder / "lumyn.json"
        self._policy.write_bytes(_json(_lumyn_policy(rules)))
        self._config = core.LumynConfig(
            policy_path=self._policy, store_path=folder / "lumyn.db", memory_enabled=False
        )
        self._loaded = import_module("lumyn.policy.loader").load_policy(self._policy)
        self._store = import_module("lumyn.store.sqlite").SqliteStore(folder / "lumyn.db")

    def reused(self, request: dict[str, Any]) -> Any:
        """Decide with the policy and the store at hand: the fastest that it offers."""
        return self._decide_v1(
            request, config=self._config, store=self._store, loaded_policy=self._loaded
        )

    def documented(self, request: dict[str, Any]) -> Any:
        """Decide as its documentation does: by paths, whatever it reads on the way."""
        return self._decide(request, config=self._config)

    def diff(self, records: Path) -> Counter[tuple[str, str]]:
        """Compare stored records with the policy, and return the changed verdicts."""
        shown = io.StringIO()
        command = import_module("lumyn.cli.commands.diff").main
        with redirect_stdout(shown), redirect_stderr(shown):
            try:
                command(dataset=records, policy=self._policy, verbose=False)
            except import_module("typer").Exit as ended:
                if ended.exit_code != 1:
                    raise
        row = re.compile(r"^\w{26}\s+([A-Z]+)\s+([A-Z]+)\s", re.MULTILINE)
        return Counter((found[1], found[2]) for found in row.finditer(shown.getvalue()))

    @staticmethod
    def answer(record: Any) -> Answer:
        """Return what a record says, in words that all share."""
        ids = (rule["rule_id"] for rule in record["matched_rules"] if rule["stage"] != "DEFAULT")
        return Answer(record["verdict"], frozenset(ids))


# -- engines that only match -------------------------------------------------------------------


class _Verdicts:
    """Finds the verdict of matched rules: by itself, such an engine only says which match."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._ranks = {rule.id: _PRECEDENCE.index(rule.verdict) for rule in rules}

    def of(self, ids: Iterable[str]) -> str:
        rank = max([self._ranks[rule_id] for rule_id in ids], default=None)
        return _DEFAULT if rank is None else _PRECEDENCE[rank]


def _pair(found: tuple[str, Iterable[str]]) -> Answer:
    return Answer(found[0], frozenset(found[1]))


# -- Cedar -------------------------------------------------------------------------------------

# Cedar counts in whole numbers only.
_SCALE = 100


def _cedar_engine(rules: Sequence[Rule]) -> Engine:
    cedar = import_module("cedarpy")
    policies = cedar.PolicySet.from_str("\n".join(map(_cedar_rule, rules)))
    nobody = cedar.Entities.from_json_str("[]")
    authorise, verdict = cedar.is_authorized, _Verdicts(rules).of

    def run(request: dict[str, Any]) -> tuple[str, Iterable[str]]:
        found = authorise(request, policies, nobody).diagnostics
        if found.errors:
            raise SystemExit(f"cedarpy could not evaluate a rule: {found.errors}")
        ids = found.id_annotations_by_reason.values()
        return verdict(ids), ids

    return Engine(_cedar_request, run, _pair)


def _cedar_request(request: dict[str, Any]) -> dict[str, Any]:
    evidence = {key: _scaled(value) for key, value in request["evidence"].items()}
    return {
        "principal": 'Agent::"desk"',
        "action": f'Action::"{request["action"]["type"]}"',
        "resource": 'Order::"any"',
        "context": {"amount": _scaled(request["action"]["amount"]["value"]), "evidence": evidence},
    }


def _cedar_rule(rule: Rule) -> str:
    tests = (" || " if rule.any_of else " && ").join(map(_cedar_test, rule.tests))
    scope = f'principal, action == Action::"{rule.action}", resource'
    return f'@id("{rule.id}") permit({scope}) when {{ {tests} }};'


def _cedar_test(test: Test) -> str:
    if test.operator == "missing":
        return f"!(context.evidence has {test.field})"
    field = "context.amount" if test.field == "amount" else f"context.evidence.{test.field}"
    there = "" if test.field == "amount" else f"context.evidence has {test.field} && "
    if test.operator == "in":
        return f"({there}{_json(test.value).decode()}.contains({field}))"
    value = _json(_scaled(test.value)).decode()
    return f"({there}{field} {_SYMBOLS[test.operator]} {value})"


def _scaled(value: Any) -> Any:
    return value if isinstance(value, str) else round(value * _SCALE)


# -- Rego --------------------------------------------------------------------------------------

_ENTRY = "data.bench.matched"


def _regorus_engine(rules: Sequence[Rule]) -> Engine:
    # The package offers only its interpreter by name; the faster machine is in the extension.
    regorus = import_module("regorus.regorus")
    text = "\n".join(["package bench", "import rego.v1", *(_rego(rule) for rule in rules)])
    machine = regorus.Rvm()
    machine.load_program(
        regorus.Program.compile_from_modules("{}", [("bench.rego", text)], [_ENTRY])
    )
    verdict = _Verdicts(rules).of

    def run(request: dict[str, Any]) -> tuple[str, Iterable[str]]:
        machine.set_input_json(_json(request).decode())
        ids = _plain(machine.execute_entry_point(_ENTRY))
        return verdict(ids), ids

    return Engine(_as_they_are, run, _pair)


def _rego(rule: Rule) -> str:
    head, action = f'matched contains "{rule.id}" if', f'input.action.type == "{rule.action}"'
    tests = [_rego_test(test) for test in rule.tests]
    bodies = tests if rule.any_of else ["; ".join(tests)]
    return "\n".join(f"{head} {{ {action}; {body} }}" for body in bodies)


def _rego_test(test: Test) -> str:
    field = (
        "input.action.amount.value" if test.field == "amount" else f"input.evidence.{test.field}"
    )
    if test.operator == "missing":
        return f"not {field}"
    symbol = "in" if test.operator == "in" else _SYMBOLS[test.operator]
    return f"{field} {symbol} {_json(test.value).decode()}"


class Peer(NamedTuple):
    """A peer: the module to look for, what to install, and its engine."""

    module: str
    distribution: str
    engine: Callable[[Sequence[Rule]], Engine]


PEERS = {
    "lumyn": Peer("lumyn", "lumyn", _lumyn_engine),
    "cedarpy": Peer("cedarpy", "cedarpy", _cedar_engine),
    "regorus": Peer("regorus", "celine-regorus", _regorus_engine),
}
