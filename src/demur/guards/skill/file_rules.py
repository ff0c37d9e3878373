"""The rules for texts, manifests and files that are not read, and for comments that allow."""

from demur.codes.reason_code import ReasonCode as Code
from demur.guards.skill.rule import BY_HAND, REMOVE, SkillRule
from demur.model.finding import Action

__all__ = ["FILE_RULES"]

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
