"""Reason codes: the vocabulary, the registry, and the refusal line that carries a code."""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.codes.document import RegistryDocument, read_document
    from demur.codes.entry import Entry, NameProblem, is_code, name_problem
    from demur.codes.evolution import ChangeLevel, Evolution, RegistryChange, compare_registries
    from demur.codes.export import EXPORT_FORMATS
    from demur.codes.lint import CodeMisuse, lint_paths, lint_source, lint_to_sarif
    from demur.codes.loading import bundle_registry, default_registry, parse_bundle
    from demur.codes.meaning import explain
    from demur.codes.reason_code import ReasonCode
    from demur.codes.refusal_line import (
        KNOWN_CODES,
        FoundRefusal,
        ParsedRefusal,
        find_refusals,
        format_refusal,
        parse_refusal,
    )
    from demur.codes.registry import Registry
    from demur.codes.vocabulary import (
        Advice,
        DecisionOutput,
        Effect,
        GrantKind,
        Obligation,
        RefusalClass,
        RetryScope,
        Severity,
        Stability,
        Surface,
        Verdict,
    )

__all__ = [
    "EXPORT_FORMATS",
    "KNOWN_CODES",
    "Advice",
    "ChangeLevel",
    "CodeMisuse",
    "DecisionOutput",
    "Effect",
    "Entry",
    "Evolution",
    "FoundRefusal",
    "GrantKind",
    "NameProblem",
    "Obligation",
    "ParsedRefusal",
    "ReasonCode",
    "RefusalClass",
    "Registry",
    "RegistryChange",
    "RegistryDocument",
    "RetryScope",
    "Severity",
    "Stability",
    "Surface",
    "Verdict",
    "bundle_registry",
    "compare_registries",
    "default_registry",
    "explain",
    "find_refusals",
    "format_refusal",
    "is_code",
    "lint_paths",
    "lint_source",
    "lint_to_sarif",
    "name_problem",
    "parse_bundle",
    "parse_refusal",
    "read_document",
]

_HOMES = {
    "demur.codes.document": "RegistryDocument read_document",
    "demur.codes.entry": "Entry NameProblem is_code name_problem",
    "demur.codes.evolution": "ChangeLevel Evolution RegistryChange compare_registries",
    "demur.codes.export": "EXPORT_FORMATS",
    "demur.codes.lint": "CodeMisuse lint_paths lint_source lint_to_sarif",
    "demur.codes.loading": "bundle_registry default_registry parse_bundle",
    "demur.codes.meaning": "explain",
    "demur.codes.reason_code": "ReasonCode",
    "demur.codes.refusal_line": (
        "KNOWN_CODES FoundRefusal ParsedRefusal find_refusals format_refusal parse_refusal"
    ),
    "demur.codes.registry": "Registry",
    "demur.codes.vocabulary": (
        "Advice DecisionOutput Effect GrantKind Obligation RefusalClass RetryScope Severity "
        "Stability Surface Verdict"
    ),
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
