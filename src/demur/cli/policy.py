"""`demur policy`: validate, test, show and import policies."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from demur.cli.main import Arguments
from demur.cli.options import add_registry_option, write_file
from demur.cli.terminal import Paint, print_error, print_problem
from demur.codes.document import read_document
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import InputError, PolicyError, Problem, one_line
from demur.policy.cases import CaseResult, load_cases, run_cases, unmatched_rules
from demur.policy.evaluation import CompiledPolicy
from demur.policy.implication import can_apply
from demur.policy.loader import load_policy
from demur.policy.lumyn import ImportedPolicy, import_policy
from demur.policy.lumyn_codes import empty_registry, read_code_list
from demur.policy.lumyn_draft import ImportDiagnostic, ImportLevel
from demur.policy.policy import Policy, PolicyRule, RuleOutcome, Stage, describe_condition
from demur.source import read_text


def configure_policy_validate(add: Arguments) -> None:
    """Add the command's arguments."""
    add("paths PATH...", "a policy file")
    add_registry_option(add)
    add("--json", "a list of JSON objects, one per file")


def run_policy_validate(args: Namespace) -> int:
    """Print the problems of each policy; 1 if there are any."""
    registry = default_registry(*args.registry)
    loaded = [(path, _try_load(path, registry)) for path in args.paths]
    if args.json:
        print(json.dumps([_validation_to_json(path, result) for path, result in loaded], indent=2))
    else:
        paint = Paint()
        for path, result in loaded:
            _print_validation(path, result, paint)
    return int(any(not isinstance(result, Policy) for _, result in loaded))


def _try_load(path: str, registry: Registry) -> Policy | tuple[Problem, ...]:
    try:
        return load_policy(path, registry=registry)
    except PolicyError as error:
        return error.problems


def _validation_to_json(path: str, result: Policy | tuple[Problem, ...]) -> dict[str, Any]:
    if not isinstance(result, Policy):
        return {"path": path, "ok": False, "problems": [p._asdict() for p in result]}
    return {
        "path": path,
        "ok": True,
        "policy_id": result.policy_id,
        "policy_version": result.policy_version,
        "mode": result.mode,
        "rules": len(result.rules),
        "shadow_rules": sum(rule.shadow for rule in result.rules),
        "digest": result.digest,
        "problems": [],
    }


def _print_validation(path: str, result: Policy | tuple[Problem, ...], paint: Paint) -> None:
    if isinstance(result, Policy):
        name = one_line(f"{path}: {result.policy_id} {result.policy_version}")
        shadow = sum(rule.shadow for rule in result.rules)
        rules = f"{len(result.rules)} rule{'s' * (len(result.rules) != 1)}"
        more = f" ({shadow} in shadow)" if shadow else ""
        print(f"{paint('ok', 'green')} {name}, {rules}{more}")
        return
    for problem in result:
        print_error(paint, problem)
    count = f"{len(result)} problem{'s' * (len(result) != 1)}"
    print(paint(one_line(f"{path}: {count}"), "dim"))


def configure_policy_test(add: Arguments) -> None:
    """Add the command's arguments."""
    add("policy POLICY", "a policy file")
    add("tables TABLE...", "a YAML list of cases")
    add("--require-coverage", "fail if a rule matches in no case")
    add_registry_option(add)
    add("--json", "one JSON object")


def run_policy_test(args: Namespace) -> int:
    """Print the failed cases; 1 if there are any."""
    registry = default_registry(*args.registry)
    policy = load_policy(args.policy, registry=registry)
    cases = [case for table in args.tables for case in load_cases(table, policy, registry)]
    results = run_cases(CompiledPolicy(policy, registry=registry), cases)
    unmatched = unmatched_rules(policy, results)
    failed = [result for result in results if result.differences]
    if args.json:
        print(json.dumps(_results_to_json(results, unmatched), indent=2))
    else:
        _print_results(results, unmatched)
    return int(bool(failed) or (args.require_coverage and bool(unmatched)))


def _results_to_json(results: Sequence[CaseResult], unmatched: Sequence[str]) -> dict[str, Any]:
    failed = sum(bool(result.differences) for result in results)
    return {
        "passed": len(results) - failed,
        "failed": failed,
        "unmatched_rules": list(unmatched),
        "cases": [
            {
                "note": result.case.note,
                "where": result.case.where,
                "passed": not result.differences,
                "differences": [difference._asdict() for difference in result.differences],
            }
            for result in results
        ],
    }


def _print_results(results: Sequence[CaseResult], unmatched: Sequence[str]) -> None:
    paint = Paint()
    failed = [result for result in results if result.differences]
    for result in failed:
        label = paint("failed:", "bold", "red")
        print(f"{one_line(result.case.where)}: {label} {one_line(result.case.note)}")
        for field, want, got in result.differences:
            print(f"  {field}")
            print(f"    want {_format_value(want)}")
            print(f"    got  {_format_value(got)}")
    if unmatched:
        print(f"{paint('note:', 'cyan')} no case matches {one_line(', '.join(unmatched))}")
    colour = "red" if failed else "green"
    print(paint(f"{len(results) - len(failed)} passed, {len(failed)} failed", colour))


def _format_value(value: Any) -> str:
    if isinstance(value, tuple):
        return one_line(", ".join(value)) or "none"
    return str(value)


_VERDICT_COLOURS = {
    Verdict.ALLOW: "green",
    Verdict.ESCALATE: "yellow",
    Verdict.ABSTAIN: "blue",
    Verdict.DENY: "red",
}


def configure_policy_show(add: Arguments) -> None:
    """Add the command's arguments."""
    add("policy POLICY", "a policy file")
    add("--action TYPE", "only rules that can apply to this action")
    add_registry_option(add)
    add("--json", "one JSON object")


def run_policy_show(args: Namespace) -> int:
    """Print the policy."""
    policy = load_policy(args.policy, registry=default_registry(*args.registry))
    rules = [
        rule
        for rule in policy.rules
        if args.action is None or can_apply(rule.condition, args.action)
    ]
    if args.json:
        print(json.dumps(_policy_to_json(policy, rules), indent=2))
        return 0
    print("\n".join(_format_policy(policy, rules, args.action, Paint())))
    return 0


def _policy_to_json(policy: Policy, rules: Sequence[PolicyRule]) -> dict[str, Any]:
    return {
        "policy_id": policy.policy_id,
        "policy_version": policy.policy_version,
        "mode": policy.mode,
        "digest": policy.digest,
        "default": _outcome_to_json(policy.default),
        "rates": dict(policy.rates),
        "shadow": [shadow._asdict() for shadow in policy.shadows],
        "rules": [
            {
                "id": rule.id,
                "stage": rule.stage,
                "shadow": rule.shadow,
                "if": describe_condition(rule.condition),
                "then": _outcome_to_json(rule.then),
                "where": rule.where,
            }
            for rule in rules
        ],
    }


def _outcome_to_json(then: RuleOutcome) -> dict[str, Any]:
    """Return an outcome without its empty fields."""
    usual = {"approvals": 1}
    given = then._asdict().items()
    fields = {key: value for key, value in given if value and usual.get(key) != value}
    return {"verdict": then.verdict, "reason_codes": list(then.reason_codes), **fields}


def _format_policy(
    policy: Policy, rules: Sequence[PolicyRule], action: str | None, paint: Paint
) -> Iterator[str]:
    name = one_line(f"{policy.policy_id} {policy.policy_version}")
    yield f"{paint(name, 'bold')} ({policy.mode})"
    yield paint(f"digest  {policy.digest}", "dim")
    yield f"default {_format_outcome(policy.default, paint)}"
    if policy.rates:
        rates = ", ".join(f"1 {name} = {rate} USD" for name, rate in sorted(policy.rates.items()))
        yield f"rates   {rates}"
    for shadow in policy.shadows:
        yield f"shadow  {one_line(f'{shadow.code}: {shadow.reason}')}"
    for stage in Stage:
        yield from _format_stage(stage, [rule for rule in rules if rule.stage is stage], paint)
    yield ""
    of = f"{len(rules)} of {len(policy.rules)} rules"
    yield paint(of if action is None else one_line(f"{of} can apply to `{action}`"), "dim")


def _format_stage(stage: Stage, rules: Sequence[PolicyRule], paint: Paint) -> Iterator[str]:
    if rules:
        yield ""
        yield paint(stage, "bold")
    space = max((len(one_line(rule.id)) for rule in rules), default=0)
    for rule in rules:
        trial = " (shadow: does not count)" if rule.shadow else ""
        name = one_line(rule.id).ljust(space)
        yield f"  {paint(name, 'cyan')}  {_format_outcome(rule.then, paint)}{trial}"
        yield f"    if {one_line(describe_condition(rule.condition))}"


def _format_outcome(then: RuleOutcome, paint: Paint) -> str:
    verdict = paint(then.verdict, _VERDICT_COLOURS[then.verdict])
    codes = f"{verdict}  {', '.join(then.reason_codes)}".rstrip()
    people = f"; by {then.approvals} people" if then.approvals > 1 else ""
    limits = f"; {one_line(', '.join(then.constraints))}" if then.constraints else ""
    return f"{codes}{people}{limits}"


_LEVEL_COLOURS = {ImportLevel.ERROR: "red", ImportLevel.WARNING: "yellow", ImportLevel.NOTE: "cyan"}


def configure_policy_import(add: Arguments) -> None:
    """Add the command's arguments."""
    add("policy POLICY", "a Lumyn policy, in the form policy.v1")
    add("--codes FILE", "its reason_codes.v1 JSON, for descriptions")
    add("--domain DOMAIN", "the domain for codes that the core registry lacks")
    add("--out FILE", "write the policy to this file", type=Path)
    add(
        "--registry-out FILE",
        "write new codes to this file; an existing registry of the domain is extended",
        type=Path,
    )
    add("--require-evidence", "add rules that require evidence which other rules read")
    add("--strict", "treat warnings as errors")
    add_registry_option(add)
    add("--json", "one JSON object")


def run_policy_import(args: Namespace) -> int:
    """Write the policy, and print the differences; 1 if something was left out."""
    registry = _load_target_registry(args)
    imported = import_policy(
        read_text(args.policy, "policy", PolicyError),
        args.policy,
        registry=registry,
        domain=args.domain,
        descriptions=read_code_list(args.codes, read_text(args.codes, "codes", PolicyError))
        if args.codes
        else None,
        require_evidence=args.require_evidence,
    )
    codes = _build_registry_file(args, imported, registry)
    if args.out is not None and args.out.exists():
        help_text = "remove it, or choose another name: your edits would be lost"
        raise InputError("the file already exists", where=str(args.out), help=help_text)
    if codes is not None and args.registry_out is not None:
        write_file(args.registry_out, json.dumps(codes, indent=2, ensure_ascii=False) + "\n")
    if args.out is not None:
        write_file(args.out, imported.text)
    _show_import(args, imported, codes)
    counting = {ImportLevel.ERROR, ImportLevel.WARNING} if args.strict else {ImportLevel.ERROR}
    return int(any(diagnostic.level in counting for diagnostic in imported.diagnostics))


def _load_target_registry(args: Namespace) -> Registry:
    """Return the registry, including the codes of the file to extend."""
    registry = default_registry(*args.registry)
    if args.registry_out is None or not args.registry_out.exists():
        return registry
    document = read_document(args.registry_out)
    if document.domain != args.domain:
        problem = f"the file holds the codes of `{document.domain}`"
        help_text = "use --domain with that domain, or choose another file"
        raise InputError(problem, where=str(args.registry_out), help=help_text)
    core, others = registry.documents
    return Registry(core, [*others, document])


def _build_registry_file(
    args: Namespace, imported: ImportedPolicy, registry: Registry
) -> dict[str, Any] | None:
    """Return the registry file with the new codes, or None if there are none."""
    if not imported.entries:
        return None
    path = args.registry_out
    if path is None and not args.json:
        count = len(imported.entries)
        problem = f"{count} code{'s' * (count != 1)} must be added to a registry"
        raise InputError(problem, help="choose the file with `--registry-out FILE`")
    for document in registry.documents[1]:
        same = path is not None and Path(document.where).resolve() == path.resolve()
        if document.domain == args.domain and not same:
            problem = f"the codes of `{args.domain}` are in {document.where}"
            raise InputError(problem, help=f"extend it with `--registry-out {document.where}`")
    raw = empty_registry(args.domain, registry)
    if path is not None and path.exists():
        raw = json.loads(path.read_text(encoding="utf-8"))
    entries = ({**entry, "since": raw["version"]} for entry in imported.entries)
    return {**raw, "codes": [*raw["codes"], *entries]}


def _show_import(args: Namespace, found: ImportedPolicy, codes: Mapping[str, Any] | None) -> None:
    if args.json:
        rows = [diagnostic._asdict() for diagnostic in found.diagnostics]
        print(json.dumps({"policy": found.text, "registry": codes, "remarks": rows}, indent=2))
        return
    if args.out is None:
        sys.stdout.write(found.text)
    _print_differences(found.diagnostics)


def _print_differences(diagnostics: Sequence[ImportDiagnostic]) -> None:
    paint = Paint(sys.stderr)
    for diagnostic in diagnostics:
        label = paint(
            f"{diagnostic.level}[{diagnostic.kind}]", "bold", _LEVEL_COLOURS[diagnostic.level]
        )
        print_problem(paint, diagnostic.where, label, diagnostic.message, diagnostic.help)
    counts = [(sum(one.level is level for one in diagnostics), level) for level in ImportLevel]
    words = ", ".join(f"{count} {level}{'s' * (count != 1)}" for count, level in counts)
    print(paint(words if diagnostics else "no differences", "dim"), file=sys.stderr)
