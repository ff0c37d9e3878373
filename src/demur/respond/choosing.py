"""Which template speaks for a refusal."""

from demur.respond.case import RefusalCase
from demur.respond.template import (
    CONSTRAINED,
    CRISIS,
    GENERAL,
    UNJUDGED,
    LocaleTemplates,
    RefusalTemplate,
)

__all__ = ["select_template"]


def select_template(templates: LocaleTemplates, case: RefusalCase) -> RefusalTemplate:
    """Return the template for a case: its code's, its parent's, or that of its class.

    Templates of another class are skipped, however near their code is: a refusal that can be
    lifted needs other words than one that cannot.
    """
    if case.crisis:
        return templates.templates[CRISIS]
    if case.allowed:
        return templates.templates[CONSTRAINED]
    found = (templates.template_for(code) for code in case.codes)
    own = next((one for one in found if one is not None and one.group == case.group), None)
    if own is None:
        general = GENERAL[case.group.refusal_class] if case.group.decided else UNJUDGED
        own = templates.templates[general]
    if case.needs_help and not own.resources:
        return templates.templates[CRISIS]
    return own
