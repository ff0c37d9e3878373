"""The guards: each inspects one surface and yields findings with registered codes.

`check(surface, event)` runs the guards of a surface. Names are loaded on first use, so that
`import demur.guards` costs next to nothing.
"""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.guards.argument_rules import (
        DEFAULT_ARGUMENT_RULES,
        ArgumentRule,
        read_argument_rules,
    )
    from demur.guards.builtin import BUILTIN, check, load_builtin
    from demur.guards.code_execution.event import Command, CommandConfig
    from demur.guards.code_execution.rules import COMMAND_RULES
    from demur.guards.compaction import Compaction, CompactionConfig
    from demur.guards.contract import Guard, GuardError, find_installed
    from demur.guards.input import InputConfig, InputText, strip_wrapper
    from demur.guards.output import OutputConfig, OutputText
    from demur.guards.output_stream import (
        OnBlock,
        OutputBlockedError,
        StreamConfig,
        guard_stream,
        guard_stream_async,
    )
    from demur.guards.pinning import ContextMessage, PinManifest, pin_messages, read_messages
    from demur.guards.quoting import quote_as_data
    from demur.guards.rate import RateConfig, RateLimit, RateUse
    from demur.guards.retrieval import RetrievalConfig, RetrievedPassage
    from demur.guards.rule_matching import check_rows, find_text_findings, scan_text
    from demur.guards.skill.event import Skill, SkillConfig
    from demur.guards.text_rules import (
        RuleCounts,
        RuleSet,
        TextRule,
        TextRuleError,
        builtin_rules,
        load_rules,
        parse_rules,
    )
    from demur.guards.tool_call import ToolCall, ToolConfig, check_definition
    from demur.guards.tool_loop import CallHistory, LoopConfig, RecordedCall
    from demur.guards.tool_manifest import PinnedTool, ToolDefinition, ToolManifest, pin_tool
    from demur.guards.tool_result import ToolResult, ToolResultConfig
    from demur.model.finding import Action, Span
    from demur.model.help_lines import find_help_resources
    from demur.text.fold import fold_text

__all__ = [
    "BUILTIN",
    "COMMAND_RULES",
    "DEFAULT_ARGUMENT_RULES",
    "Action",
    "ArgumentRule",
    "CallHistory",
    "Command",
    "CommandConfig",
    "Compaction",
    "CompactionConfig",
    "ContextMessage",
    "Guard",
    "GuardError",
    "InputConfig",
    "InputText",
    "LoopConfig",
    "OnBlock",
    "OutputBlockedError",
    "OutputConfig",
    "OutputText",
    "PinManifest",
    "PinnedTool",
    "RateConfig",
    "RateLimit",
    "RateUse",
    "RecordedCall",
    "RetrievalConfig",
    "RetrievedPassage",
    "RuleCounts",
    "RuleSet",
    "Skill",
    "SkillConfig",
    "Span",
    "StreamConfig",
    "TextRule",
    "TextRuleError",
    "ToolCall",
    "ToolConfig",
    "ToolDefinition",
    "ToolManifest",
    "ToolResult",
    "ToolResultConfig",
    "builtin_rules",
    "check",
    "check_definition",
    "check_rows",
    "find_help_resources",
    "find_installed",
    "find_text_findings",
    "fold_text",
    "guard_stream",
    "guard_stream_async",
    "load_builtin",
    "load_rules",
    "parse_rules",
    "pin_messages",
    "pin_tool",
    "quote_as_data",
    "read_argument_rules",
    "read_messages",
    "scan_text",
    "strip_wrapper",
]

_HOMES = {
    "demur.guards.argument_rules": "ArgumentRule DEFAULT_ARGUMENT_RULES read_argument_rules",
    "demur.guards.builtin": "BUILTIN check load_builtin",
    "demur.guards.code_execution.event": "Command CommandConfig",
    "demur.guards.code_execution.rules": "COMMAND_RULES",
    "demur.guards.compaction": "Compaction CompactionConfig",
    "demur.guards.contract": "Guard GuardError find_installed",
    "demur.guards.input": "InputConfig InputText strip_wrapper",
    "demur.guards.output": "OutputConfig OutputText",
    "demur.guards.output_stream": (
        "OnBlock OutputBlockedError StreamConfig guard_stream guard_stream_async"
    ),
    "demur.guards.pinning": "ContextMessage PinManifest pin_messages read_messages",
    "demur.guards.quoting": "quote_as_data",
    "demur.guards.rate": "RateConfig RateLimit RateUse",
    "demur.guards.retrieval": "RetrievalConfig RetrievedPassage",
    "demur.guards.rule_matching": "check_rows find_text_findings scan_text",
    "demur.guards.skill.event": "Skill SkillConfig",
    "demur.guards.text_rules": (
        "RuleCounts RuleSet TextRule TextRuleError builtin_rules load_rules parse_rules"
    ),
    "demur.guards.tool_call": "ToolCall ToolConfig check_definition",
    "demur.guards.tool_loop": "CallHistory LoopConfig RecordedCall",
    "demur.guards.tool_manifest": "PinnedTool ToolDefinition ToolManifest pin_tool",
    "demur.guards.tool_result": "ToolResult ToolResultConfig",
    "demur.model.finding": "Action Span",
    "demur.model.help_lines": "find_help_resources",
    "demur.text.fold": "fold_text",
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
