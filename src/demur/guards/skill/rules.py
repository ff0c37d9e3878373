"""The rules of the surface `skill`, and a hit: a rule that holds at a place in a file.

Rules for the words of Markdown are in `rules/skill.yaml`; rules for shell commands belong to the
surface `code_execution`. Reports explain both by their codes.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.codes.reason_code import ReasonCode as Code
from demur.model.finding import Action

BY_HAND = "have a person read the file before it is trusted"
REMOVE = "remove it, or do not trust the skill"


class SkillRule(NamedTuple):
    """One rule: its code, its action, why it matters, and how to fix it."""

    id: str
    code: ReasonCode
    action: Action
    why: str
    fix: str


_MILDER = {Action.BLOCK: Action.ESCALATE, Action.ESCALATE: Action.WARN, Action.WARN: Action.WARN}


class SkillHit(NamedTuple):
    """A rule that holds at a place in a file. Code and action default to the rule's."""

    rule: str
    start: int
    end: int
    detail: str
    evidence: Mapping[str, Any] = {}
    code: str | None = None
    action: Action | None = None


def soften_action(action: Action) -> Action:
    """Return the action one step down; a warning stays one."""
    return _MILDER[action]


FILE_RULES = (
    SkillRule(
        "HOST_DROP",
        Code.EXFILTRATION_RISK,
        Action.ESCALATE,
        "the host takes data from anyone and shows it to the person who made the address",
        "use a known service, or allow the host with --allow-host",
    ),
    SkillRule(
        "UNPARSED",
        Code.GUARDRAIL_PARTIAL,
        Action.ESCALATE,
        "the unparsed part was not judged; another version may run it",
        BY_HAND,
    ),
    SkillRule(
        "TEXT_BIDI",
        Code.OBFUSCATED_CODE,
        Action.BLOCK,
        "the text is shown in another order than it runs or is read",
        "remove the control characters",
    ),
    SkillRule(
        "TEXT_INVISIBLE",
        Code.OBFUSCATED_CODE,
        Action.ESCALATE,
        "characters that nobody sees can carry a message or split a word",
        "remove them",
    ),
    SkillRule(
        "TEXT_LOOKALIKE",
        Code.OBFUSCATED_CODE,
        Action.BLOCK,
        "the name looks like another one, or becomes another one when it is read",
        "write the name in one alphabet",
    ),
    SkillRule(
        "HIDDEN_ORDER",
        Code.SKILL_INJECTION,
        Action.BLOCK,
        "an agent reads it as an order, and a person does not see it",
        REMOVE,
    ),
    SkillRule(
        "HIDDEN_TEXT",
        Code.SKILL_INJECTION,
        Action.ESCALATE,
        "an agent reads it, and a person does not see it",
        "show the text, or remove it",
    ),
    SkillRule(
        "RUNS_ON_LOAD",
        Code.RCE_RISK,
        Action.WARN,
        "the command runs when the file is loaded, before anybody agrees",
        "let the agent run it as a tool call, which a guard can check",
    ),
    SkillRule(
        "BROAD_PERMISSION",
        Code.PRIVILEGE_ESCALATION,
        Action.ESCALATE,
        "the skill could do everything that the agent can, without approval",
        "list the tools, paths and hosts that it needs",
    ),
    SkillRule(
        "INSTALL_SCRIPT",
        Code.RCE_RISK,
        Action.ESCALATE,
        "it runs while the package is installed, before anybody uses it",
        "install without scripts, or read what they do",
    ),
    SkillRule(
        "BUILD_HOOK",
        Code.RCE_RISK,
        Action.ESCALATE,
        "code of the folder itself runs while it is built",
        "use a published build backend, or read the hook",
    ),
    SkillRule(
        "RUNS_BY_ITSELF",
        Code.RCE_RISK,
        Action.WARN,
        "the host starts it automatically, every time",
        "check the command, and what it starts",
    ),
    SkillRule(
        "UNPINNED_SOURCE",
        Code.RCE_RISK,
        Action.WARN,
        "the same reference may fetch other code later",
        "pin a version, or a commit",
    ),
    SkillRule(
        "PLAIN_SOURCE",
        Code.RCE_RISK,
        Action.ESCALATE,
        "anyone on the network path can change a download over plain HTTP",
        "use https",
    ),
    SkillRule(
        "CREDENTIAL",
        Code.SECRET_LEAK,
        Action.ESCALATE,
        "everyone who has the skill has the credential",
        "revoke it, remove it, and read it from the environment",
    ),
    SkillRule(
        "FILE_OMITTED",
        Code.GUARDRAIL_PARTIAL,
        Action.ESCALATE,
        "a file that was not read was not judged",
        BY_HAND,
    ),
    SkillRule(
        "FILE_BINARY",
        Code.GUARDRAIL_PARTIAL,
        Action.WARN,
        "compiled or packed content cannot be read, so it was not judged",
        "ship sources, or check where the file comes from",
    ),
    SkillRule(
        "FILE_BYTECODE",
        Code.OBFUSCATED_CODE,
        Action.ESCALATE,
        "Python can run it in place of the source, or without any",
        "delete it; Python makes it again from the source",
    ),
    SkillRule(
        "FILE_LANGUAGE",
        Code.GUARDRAIL_PARTIAL,
        Action.WARN,
        "programs in this language are not read, so it was not judged",
        BY_HAND,
    ),
    SkillRule(
        "ALLOW_NO_REASON",
        Code.POLICY_VIOLATION,
        Action.WARN,
        "an exception that gives no reason cannot be reviewed, so it allows nothing",
        "add ` -- ` and the reason",
    ),
    SkillRule(
        "ALLOW_UNKNOWN",
        Code.POLICY_VIOLATION,
        Action.WARN,
        "the comment allows nothing, because nothing has this name",
        "name the code or the rule that the report shows",
    ),
    SkillRule(
        "ALLOW_BLOCK",
        Code.POLICY_VIOLATION,
        Action.WARN,
        "a skill cannot lift a block from itself",
        "if you trust it, accept it in a baseline file outside the folder",
    ),
)


_DECLARE = "allow the module with --allow-import if the skill needs it"
PYTHON_RULES = (
    SkillRule(
        "PY_IMPORT_PROCESS",
        Code.RISKY_IMPORT,
        Action.WARN,
        "the module can start programs",
        _DECLARE,
    ),
    SkillRule(
        "PY_IMPORT_NETWORK",
        Code.RISKY_IMPORT,
        Action.WARN,
        "the module can reach other machines",
        _DECLARE,
    ),
    SkillRule(
        "PY_IMPORT_NATIVE",
        Code.RISKY_IMPORT,
        Action.ESCALATE,
        "the module reaches native memory, past every check that Python makes",
        _DECLARE,
    ),
    SkillRule(
        "PY_IMPORT_SPY",
        Code.RISKY_IMPORT,
        Action.ESCALATE,
        "the module reads keystrokes, stored passwords or browser sessions",
        _DECLARE,
    ),
    SkillRule(
        "PY_IMPORT_DYNAMIC",
        Code.RISKY_IMPORT,
        Action.WARN,
        "the module name is known only at run time",
        "import by name, or choose from a fixed table",
    ),
    SkillRule(
        "PY_PROCESS_START",
        Code.RISKY_IMPORT,
        Action.WARN,
        "it starts another program",
        "check which program, and whether the skill needs it",
    ),
    SkillRule(
        "PY_EXEC_REMOTE",
        Code.RCE_RISK,
        Action.BLOCK,
        "the server of the download decides what runs here",
        "ship the code with the skill, where it can be read",
    ),
    SkillRule(
        "PY_EXEC_DECODED",
        Code.OBFUSCATED_CODE,
        Action.BLOCK,
        "code that is decoded and then run hides what it does",
        "ship the code as plain source",
    ),
    SkillRule(
        "PY_EXEC_DYNAMIC",
        Code.RCE_RISK,
        Action.ESCALATE,
        "the code that runs is known only at run time",
        "call a function from a fixed table, or parse with ast.literal_eval",
    ),
    SkillRule(
        "PY_EXEC_LITERAL",
        Code.RCE_RISK,
        Action.WARN,
        "code in a string escapes most readers and tools",
        "write it as code",
    ),
    SkillRule(
        "PY_HIDDEN_NAME",
        Code.OBFUSCATED_CODE,
        Action.BLOCK,
        "the name is assembled so that a search does not find it",
        "write the name out",
    ),
    SkillRule(
        "PY_SHELL_DYNAMIC",
        Code.RCE_RISK,
        Action.ESCALATE,
        "a shell runs text that is assembled at run time",
        "pass the arguments as a list, without a shell",
    ),
    SkillRule(
        "PY_DOWNLOAD_RUN",
        Code.RCE_RISK,
        Action.BLOCK,
        "a downloaded file runs without review",
        "ship the file with the skill, or check it against a digest before it runs",
    ),
    SkillRule(
        "PY_REVERSE_SHELL",
        Code.RCE_RISK,
        Action.BLOCK,
        "the standard streams of this process are handed to a connection",
        REMOVE,
    ),
    SkillRule(
        "PY_NATIVE_INJECTION",
        Code.RCE_RISK,
        Action.ESCALATE,
        "it makes memory executable or writes into another process",
        BY_HAND,
    ),
    SkillRule(
        "PY_UNPICKLE",
        Code.RCE_RISK,
        Action.WARN,
        "loading such data runs code that its author put into it",
        "use JSON, or another format that holds only data",
    ),
    SkillRule(
        "PY_UNPICKLE_REMOTE",
        Code.RCE_RISK,
        Action.BLOCK,
        "the server of the data decides what runs here",
        "send JSON, or another format that holds only data",
    ),
    SkillRule(
        "PY_UNPICKLE_DECODED",
        Code.OBFUSCATED_CODE,
        Action.ESCALATE,
        "data that can carry code is decoded first, so review cannot see the code",
        "ship JSON, or another format that holds only data",
    ),
    SkillRule(
        "PY_SECRET_SENT",
        Code.EXFILTRATION_RISK,
        Action.BLOCK,
        "private keys, stored logins or the whole environment leave this machine",
        REMOVE,
    ),
    SkillRule(
        "PY_TOKEN_SENT",
        Code.EXFILTRATION_RISK,
        Action.ESCALATE,
        "a credential leaves as content, not as a login to the service it belongs to",
        "send it as a header, and only to the service it belongs to",
    ),
    SkillRule(
        "PY_SECRET_READ",
        Code.EXFILTRATION_RISK,
        Action.ESCALATE,
        "one file reads private keys or stored logins and can reach the network",
        "check that the data stays on this machine",
    ),
    SkillRule(
        "PY_DESTROYS",
        Code.DESTRUCTIVE_ACTION,
        Action.BLOCK,
        "a whole home, root or system folder would be lost",
        REMOVE,
    ),
    SkillRule(
        "PY_PRIVILEGE",
        Code.PRIVILEGE_ESCALATION,
        Action.ESCALATE,
        "it takes the rights of another user",
        BY_HAND,
    ),
    SkillRule(
        "PY_STARTUP",
        Code.PRIVILEGE_ESCALATION,
        Action.ESCALATE,
        "a file there runs at every login or start, long after the skill is gone",
        "do not change the user's own settings",
    ),
    SkillRule(
        "PY_INSTALL_HOOK",
        Code.RCE_RISK,
        Action.ESCALATE,
        "it runs while the package is installed, before anybody uses it",
        "install without hooks, or read what the hook does",
    ),
    SkillRule(
        "PY_STARTUP_FILE",
        Code.RCE_RISK,
        Action.ESCALATE,
        "Python runs this at every start, without any import",
        "leave such files out of a skill",
    ),
    SkillRule(
        "PY_CODEC",
        Code.OBFUSCATED_CODE,
        Action.BLOCK,
        "the file is decoded to other code than reviewers read",
        "save it as UTF-8",
    ),
    SkillRule(
        "PY_BLOB",
        Code.OBFUSCATED_CODE,
        Action.WARN,
        "a long encoded text that is decoded here can hold anything",
        "ship it as a separate file of its own type",
    ),
    SkillRule(
        "PY_TEXT",
        Code.SKILL_INJECTION,
        Action.ESCALATE,
        "an agent may read this text as instructions",
        REMOVE,
    ),
)


_READ = "read what it does, or replace it by plain code"
RULES: Mapping[str, SkillRule] = {rule.id: rule for rule in (*PYTHON_RULES, *FILE_RULES)}
_WHY: Mapping[str, tuple[str, str]] = {
    Code.RCE_RISK: ("unreviewed code would run", _READ),
    Code.OBFUSCATED_CODE: ("code that hides what it does cannot be judged", _READ),
    Code.EXFILTRATION_RISK: ("private data would leave this machine", REMOVE),
    Code.DESTRUCTIVE_ACTION: ("data would be lost for good", "limit it to the skill's own files"),
    Code.PRIVILEGE_ESCALATION: ("it takes rights that the agent does not have", BY_HAND),
    Code.SKILL_INJECTION: ("an agent would follow it against its user", REMOVE),
    Code.SECRET_LEAK: ("everyone who has the skill has the credential", "revoke it, and remove it"),
}


def find_rule(rule_id: str, code: str, action: Action) -> SkillRule:
    """Return the rule of this id; for a rule of another surface, one explained by its code."""
    if rule_id in RULES:
        return RULES[rule_id]
    why, fix = _WHY.get(code, ("see the page of the reason code", BY_HAND))
    return SkillRule(rule_id, Code(code), action, why, fix)
