"""The rules of this surface as one table: id, code, action, and a description.

A rule names a mechanism. The tables and checks find it; this table holds its code and action, so
that one page shows everything that the guard can report.
"""

from typing import NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.model.finding import Action

__all__ = ["RULES", "Rule"]


class Rule(NamedTuple):
    """The code and action of a rule, and its description."""

    code: ReasonCode
    action: Action
    words: str


_LOSS = ReasonCode.DESTRUCTIVE_ACTION
_RIGHTS = ReasonCode.PRIVILEGE_ESCALATION
_OUT = ReasonCode.EXFILTRATION_RISK
_RUN = ReasonCode.RCE_RISK
_HIDDEN = ReasonCode.OBFUSCATED_CODE
_BLOCK, _ASK, _NOTE = Action.BLOCK, Action.ESCALATE, Action.WARN

_DESTRUCTIVE = {
    "DELETE_ROOT": Rule(_LOSS, _BLOCK, "deletes the whole file system"),
    "DELETE_SYSTEM": Rule(_LOSS, _BLOCK, "deletes part of the system"),
    "DELETE_HOME": Rule(_LOSS, _BLOCK, "deletes folders of the home directory"),
    "DELETE_OUTSIDE": Rule(_LOSS, _BLOCK, "deletes a tree outside the workspace"),
    "DELETE_FILE_OUTSIDE": Rule(_LOSS, _ASK, "deletes a file outside the workspace"),
    "DELETE_WORKSPACE": Rule(_LOSS, _ASK, "deletes the workspace or its history"),
    "DELETE_UNKNOWN": Rule(_LOSS, _ASK, "deletes a tree whose path is not known"),
    "DELETE_SEARCHED": Rule(_LOSS, _NOTE, "deletes whatever a search finds"),
    "DELETE_LOGS": Rule(_LOSS, _ASK, "removes logs or history"),
    "DELETE_BACKUPS": Rule(_LOSS, _BLOCK, "removes backups or restore points"),
    "DELETE_RESOURCES": Rule(_LOSS, _ASK, "deletes cloud or cluster resources wholesale"),
    "DELETE_ACCOUNT": Rule(_LOSS, _ASK, "deletes an account"),
    "DROP_DATABASE": Rule(_LOSS, _ASK, "drops or empties a database"),
    "OVERWRITE_DEVICE": Rule(_LOSS, _BLOCK, "writes over a disk or a file system"),
    "OVERWRITE_SYSTEM": Rule(_LOSS, _BLOCK, "writes over a file the system needs"),
    "WRITE_SYSTEM": Rule(_LOSS, _ASK, "changes a file the system needs"),
    "WRITE_OUTSIDE": Rule(_LOSS, _NOTE, "writes outside the workspace"),
    "SHRED": Rule(_LOSS, _ASK, "wipes data so that it cannot be restored"),
    "ENCRYPT_IN_PLACE": Rule(_LOSS, _ASK, "encrypts or locks files outside the workspace"),
    "FORK_BOMB": Rule(_LOSS, _BLOCK, "starts processes without end"),
    "SHUT_DOWN": Rule(_LOSS, _ASK, "stops or restarts the machine"),
    "STOP_SERVICE": Rule(_LOSS, _NOTE, "stops a service or a process"),
    "GIT_FORCE_PUSH": Rule(_LOSS, _ASK, "rewrites a protected branch on the remote"),
    "GIT_REWRITE": Rule(_LOSS, _NOTE, "drops commits or changes of the repository"),
    "GIT_CLEAN": Rule(_LOSS, _ASK, "deletes all files that are not tracked"),
}
_PRIVILEGE = {
    "SUDO": Rule(_RIGHTS, _NOTE, "runs with the rights of root"),
    "SCRATCH_AS_ROOT": Rule(_RIGHTS, _ASK, "runs a program from a scratch folder as root"),
    "ROOT_SHELL": Rule(_RIGHTS, _ASK, "opens a shell with the rights of another user"),
    "SUDOERS": Rule(_RIGHTS, _BLOCK, "changes who may act as root"),
    "ACCOUNT_FILES": Rule(_RIGHTS, _BLOCK, "writes the account database"),
    "SETUID": Rule(_RIGHTS, _BLOCK, "lets a program run with the rights of its owner"),
    "CAPABILITIES": Rule(_RIGHTS, _BLOCK, "gives a program rights of root"),
    "WORLD_WRITABLE": Rule(_RIGHTS, _BLOCK, "opens files outside the workspace to everybody"),
    "MODE_CHANGE": Rule(_RIGHTS, _NOTE, "changes modes or owners outside the workspace"),
    "OWNERSHIP": Rule(_RIGHTS, _ASK, "takes over files of the system"),
    "ADMIN_GROUP": Rule(_RIGHTS, _BLOCK, "makes an account an administrator"),
    "ACCOUNT_CREATE": Rule(_RIGHTS, _ASK, "creates or unlocks an account"),
    "ACCOUNT_CHANGE": Rule(_RIGHTS, _NOTE, "changes an account"),
    "CLOUD_RIGHTS": Rule(_RIGHTS, _ASK, "creates identities or widens rights in a cloud"),
    "KERNEL_MODULE": Rule(_RIGHTS, _ASK, "loads a file into the kernel or changes its settings"),
    "SYSTEM_MODULE": Rule(_RIGHTS, _NOTE, "loads or unloads a module of the kernel"),
    "CONTAINER_ESCAPE": Rule(_RIGHTS, _BLOCK, "gives a container the rights of the host"),
    "CONTAINER_PRIVILEGED": Rule(_RIGHTS, _ASK, "runs a container without its walls"),
    "LIBRARY_INJECTION": Rule(_RIGHTS, _ASK, "loads a library into other programs"),
    "LINKER_PRELOAD": Rule(_RIGHTS, _BLOCK, "loads a library into every program"),
    "AUTHORIZED_KEYS": Rule(_RIGHTS, _BLOCK, "lets a key log in from now on"),
    "STARTUP_FILE": Rule(_RIGHTS, _ASK, "makes something run at login, at boot or on a trigger"),
    "STARTUP_JOB": Rule(_RIGHTS, _ASK, "schedules something to run later"),
    "SERVICE_ENABLE": Rule(_RIGHTS, _NOTE, "makes a service start on its own"),
    "SERVICE_CREATE": Rule(_RIGHTS, _ASK, "creates or redirects a system service"),
    "TRUST_STORE": Rule(_RIGHTS, _ASK, "makes the system trust a certificate"),
    "DEFENCE_OFF": Rule(_RIGHTS, _BLOCK, "switches off what protects or watches the machine"),
    "DEFENCE_WEAKENED": Rule(_RIGHTS, _ASK, "weakens what protects or watches the machine"),
    "ATTACK_TOOL": Rule(_RIGHTS, _ASK, "runs a tool made to break in or take credentials"),
    "TESTING_TOOL": Rule(_RIGHTS, _NOTE, "runs a tool for security tests"),
    "PROCESS_INJECTION": Rule(_RIGHTS, _ASK, "runs code inside another process"),
    "REMOTE_EXECUTION": Rule(_RIGHTS, _ASK, "runs something on another machine"),
    "PROXY_EXECUTION": Rule(_RIGHTS, _ASK, "runs something through a program that hides it"),
    "UAC_BYPASS": Rule(_RIGHTS, _BLOCK, "goes around the consent prompt"),
}
_NETWORK = {
    "DOWNLOAD_RUN": Rule(_RUN, _BLOCK, "runs code straight from the network"),
    "DOWNLOAD_TOOL": Rule(_RUN, _ASK, "downloads with a program that is not made for it"),
    "DOWNLOAD_FILE": Rule(_RUN, _NOTE, "downloads a program or a script"),
    "REVERSE_SHELL": Rule(_RUN, _BLOCK, "hands a shell to another machine"),
    "REMOTE_SCRIPT": Rule(_RUN, _BLOCK, "loads a script from the network into a system program"),
    "UNTRUSTED_LOAD": Rule(_RUN, _BLOCK, "unpacks an object that can run code"),
    "UNTRUSTED_FILE": Rule(_RUN, _NOTE, "unpacks a file that can run code"),
    "INSTALL_FROM_URL": Rule(_RUN, _ASK, "installs a package from an address"),
    "INSTALL_FROM_GIT": Rule(_RUN, _NOTE, "installs a package from a repository"),
    "EVAL_UNKNOWN": Rule(_RUN, _NOTE, "runs text that is only known at run time"),
    "SECRET_SENT": Rule(_OUT, _BLOCK, "sends secrets to another machine"),
    "DATA_SENT": Rule(_OUT, _ASK, "sends files from outside the workspace to another machine"),
    "WORK_SENT": Rule(_OUT, _NOTE, "sends files to another machine"),
    "DATA_STAGED": Rule(_OUT, _NOTE, "packs files from outside the workspace"),
    "SECRET_READ": Rule(_OUT, _ASK, "reads credentials"),
    "SECRET_NEAR": Rule(_OUT, _NOTE, "reads a file that often holds secrets"),
    "CREDENTIAL_DUMP": Rule(_OUT, _BLOCK, "takes credentials out of the system"),
    "METADATA": Rule(_OUT, _ASK, "asks the cloud for the machine's credentials"),
    "EAVESDROP": Rule(_OUT, _NOTE, "captures traffic, screen, sound or clipboard"),
    "TUNNEL": Rule(_OUT, _NOTE, "opens a way in from outside"),
    "HOST_FACTS": Rule(_OUT, _NOTE, "collects facts about the machine, its users or its network"),
    "HOST_NOT_ALLOWED": Rule(
        ReasonCode.EGRESS_DENIED, _BLOCK, "reaches a host that is not allowed"
    ),
}
_FORM = {
    "DECODED_RUN": Rule(_HIDDEN, _ASK, "runs text that was encoded"),
    "NESTED_TOO_DEEP": Rule(_HIDDEN, _ASK, "nests too deep to be read"),
    "TOO_LONG": Rule(_HIDDEN, _ASK, "is too long to be read to its end"),
    "UNREADABLE": Rule(_HIDDEN, _NOTE, "cannot be parsed to its end"),
    "HIDDEN_WINDOW": Rule(_HIDDEN, _ASK, "runs without a window or a policy"),
    "HIDDEN_FILE": Rule(_HIDDEN, _NOTE, "hides a file or a user"),
    "NATIVE_CODE": Rule(
        ReasonCode.RISKY_IMPORT, _ASK, "imports a module that reaches native memory"
    ),
    "PROCESS_IMPORT": Rule(ReasonCode.RISKY_IMPORT, _ASK, "imports a module for an unseen use"),
    "PROCESS_MODULE": Rule(
        ReasonCode.RISKY_IMPORT, _NOTE, "imports a module that starts processes"
    ),
    "SECRET_LITERAL": Rule(ReasonCode.SECRET_LEAK, _ASK, "carries a credential in its text"),
    "SECRET_PERHAPS": Rule(ReasonCode.SECRET_LEAK, _NOTE, "may carry a password in its text"),
    "COMMAND_DENIED": Rule(
        ReasonCode.TOOL_NOT_ALLOWED, _BLOCK, "is on the list of denied commands"
    ),
}

RULES: dict[str, Rule] = {**_DESTRUCTIVE, **_PRIVILEGE, **_NETWORK, **_FORM}
