"""Words for people: graceful refusals composed from a decision, and a linter of refusals."""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.respond.case import Audience, parse_compose_source
    from demur.respond.graceful import compose, render, render_samples, view
    from demur.respond.lint import lint_refusal
    from demur.respond.lint_marks import MarksError, load_marks
    from demur.respond.lint_report import RefusalPart, RefusalProblem, RefusalReport, RefusalVerdict
    from demur.respond.template import Templates
    from demur.respond.template_file import (
        TemplateError,
        builtin_templates,
        load_templates,
        parse_templates,
    )
    from demur.respond.words import FiveParts, GracefulRefusal, RewordResult

__all__ = [
    "Audience",
    "FiveParts",
    "GracefulRefusal",
    "MarksError",
    "RefusalPart",
    "RefusalProblem",
    "RefusalReport",
    "RefusalVerdict",
    "RewordResult",
    "TemplateError",
    "Templates",
    "builtin_templates",
    "compose",
    "lint_refusal",
    "load_marks",
    "load_templates",
    "parse_compose_source",
    "parse_templates",
    "render",
    "render_samples",
    "view",
]

_HOMES = {
    "demur.respond.case": "Audience parse_compose_source",
    "demur.respond.graceful": "compose render render_samples view",
    "demur.respond.lint": "lint_refusal",
    "demur.respond.lint_marks": "MarksError load_marks",
    "demur.respond.lint_report": "RefusalPart RefusalProblem RefusalReport RefusalVerdict",
    "demur.respond.template": "Templates",
    "demur.respond.template_file": "TemplateError builtin_templates load_templates parse_templates",
    "demur.respond.words": "FiveParts GracefulRefusal RewordResult",
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
