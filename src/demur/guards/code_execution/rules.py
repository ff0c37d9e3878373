"""The rules of this surface as one table: id, code, action, and a description.

A rule names a mechanism. The tables and checks find it; this table holds its code and action, so
that one page shows everything that the guard can report.
"""

from typing import NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.model.finding import Action


class CommandRule(NamedTuple):
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
    "DELETE_ROOT": CommandRule(_LOSS, _BLOCK, "deletes the whole file system"),
    "DELETE_SYSTEM": CommandRule(_LOSS, _BLOCK, "deletes part of the system"),
    "DELETE_HOME": CommandRule(_LOSS, _BLOCK, "deletes folders of the home directory"),
    "DELETE_OUTSIDE": CommandRule(_LOSS, _BLOCK, "deletes a tree outside the workspace"),
    "DELETE_FILE_OUTSIDE": CommandRule(_LOSS, _ASK, "deletes a file outside the workspace"),
    "DELETE_WORKSPACE": CommandRule(_LOSS, _ASK, "deletes the workspace or its history"),
    "DELETE_UNKNOWN": CommandRule(_LOSS, _ASK, "deletes a tree whose path is not known"),
    "DELETE_SEARCHED": CommandRule(_LOSS, _NOTE, "deletes whatever a search finds"),
    "DELETE_LOGS": CommandRule(_LOSS, _ASK, "removes logs or history"),
    "DELETE_BACKUPS": CommandRule(_LOSS, _BLOCK, "removes backups or restore points"),
    "DELETE_RESOURCES": CommandRule(_LOSS, _ASK, "deletes cloud or cluster resources wholesale"),
    "DELETE_ACCOUNT": CommandRule(_LOSS, _ASK, "deletes an account"),
    "DROP_DATABASE": CommandRule(_LOSS, _ASK, "drops or empties a database"),
    "OVERWRITE_DEVICE": CommandRule(_LOSS, _BLOCK, "writes over a disk or a file system"),
    "OVERWRITE_SYSTEM": CommandRule(_LOSS, _BLOCK, "writes over a file the system needs"),
    "WRITE_SYSTEM": CommandRule(_LOSS, _ASK, "changes a file the system needs"),
    "WRITE_OUTSIDE": CommandRule(_LOSS, _NOTE, "writes outside the workspace"),
    "SHRED": CommandRule(_LOSS, _ASK, "wipes data so that it cannot be restored"),
    "ENCRYPT_IN_PLACE": CommandRule(_LOSS, _ASK, "encrypts or locks files outside the workspace"),
    "FORK_BOMB": CommandRule(_LOSS, _BLOCK, "starts processes without end"),
    "SHUT_DOWN": CommandRule(_LOSS, _ASK, "stops or restarts the machine"),
    "STOP_SERVICE": CommandRule(_LOSS, _NOTE, "stops a service or a process"),
    "GIT_FORCE_PUSH": CommandRule(_LOSS, _ASK, "rewrites a protected branch on the remote"),
    "GIT_REWRITE": CommandRule(_LOSS, _NOTE, "drops commits or changes of the repository"),
    "GIT_CLEAN": CommandRule(_LOSS, _ASK, "deletes all files that are not tracked"),
}
_PRIVILEGE = {
    "SUDO": CommandRule(_RIGHTS, _NOTE, "runs with the rights of root"),
    "SCRATCH_AS_ROOT": CommandRule(_RIGHTS, _ASK, "runs a program from a scratch folder as root"),
    "ROOT_SHELL": CommandRule(_RIGHTS, _ASK, "opens a shell with the rights of another user"),
    "SUDOERS": CommandRule(_RIGHTS, _BLOCK, "changes who may act as root"),
    "ACCOUNT_FILES": CommandRule(_RIGHTS, _BLOCK, "writes the account database"),
    "SETUID": CommandRule(_RIGHTS, _BLOCK, "lets a program run with the rights of its owner"),
    "CAPABILITIES": CommandRule(_RIGHTS, _BLOCK, "gives a program rights of root"),
    "WORLD_WRITABLE": CommandRule(
        _RIGHTS, _BLOCK, "opens files outside the workspace to everybody"
    ),
    "MODE_CHANGE": CommandRule(_RIGHTS, _NOTE, "changes modes or owners outside the workspace"),
    "OWNERSHIP": CommandRule(_RIGHTS, _ASK, "takes over files of the system"),
    "ADMIN_GROUP": CommandRule(_RIGHTS, _BLOCK, "makes an account an administrator"),
    "ACCOUNT_CREATE": CommandRule(_RIGHTS, _ASK, "creates or unlocks an account"),
    "ACCOUNT_CHANGE": CommandRule(_RIGHTS, _NOTE, "changes an account"),
    "CLOUD_RIGHTS": CommandRule(_RIGHTS, _ASK, "creates identities or widens rights in a cloud"),
    "KERNEL_MODULE": CommandRule(
        _RIGHTS, _ASK, "loads a file into the kernel or changes its settings"
    ),
    "SYSTEM_MODULE": CommandRule(_RIGHTS, _NOTE, "loads or unloads a module of the kernel"),
    "CONTAINER_ESCAPE": CommandRule(_RIGHTS, _BLOCK, "gives a container the rights of the host"),
    "CONTAINER_PRIVILEGED": CommandRule(_RIGHTS, _ASK, "runs a container without its walls"),
    "LIBRARY_INJECTION": CommandRule(_RIGHTS, _ASK, "loads a library into other programs"),
    "LINKER_PRELOAD": CommandRule(_RIGHTS, _BLOCK, "loads a library into every program"),
    "AUTHORIZED_KEYS": CommandRule(_RIGHTS, _BLOCK, "lets a key log in from now on"),
    "STARTUP_FILE": CommandRule(
        _RIGHTS, _ASK, "makes something run at login, at boot or on a trigger"
    ),
    "STARTUP_JOB": CommandRule(_RIGHTS, _ASK, "schedules something to run later"),
    "SERVICE_ENABLE": CommandRule(_RIGHTS, _NOTE, "makes a service start on its own"),
    "SERVICE_CREATE": CommandRule(_RIGHTS, _ASK, "creates or redirects a system service"),
    "TRUST_STORE": CommandRule(_RIGHTS, _ASK, "makes the system trust a certificate"),
    "DEFENCE_OFF": CommandRule(
        _RIGHTS, _BLOCK, "switches off what protects or watches the machine"
    ),
    "DEFENCE_WEAKENED": CommandRule(_RIGHTS, _ASK, "weakens what protects or watches the machine"),
    "ATTACK_TOOL": CommandRule(_RIGHTS, _ASK, "runs a tool made to break in or take credentials"),
    "TESTING_TOOL": CommandRule(_RIGHTS, _NOTE, "runs a tool for security tests"),
    "PROCESS_INJECTION": CommandRule(_RIGHTS, _ASK, "runs code inside another process"),
    "REMOTE_EXECUTION": CommandRule(_RIGHTS, _ASK, "runs something on another machine"),
    "PROXY_EXECUTION": CommandRule(_RIGHTS, _ASK, "runs something through a program that hides it"),
    "UAC_BYPASS": CommandRule(_RIGHTS, _BLOCK, "goes around the consent prompt"),
}
_NETWORK = {
    "DOWNLOAD_RUN": CommandRule(_RUN, _BLOCK, "runs code straight from the network"),
    "DOWNLOAD_TOOL": CommandRule(_RUN, _ASK, "downloads with a program that is not made for it"),
    "DOWNLOAD_FILE": CommandRule(_RUN, _NOTE, "downloads a program or a script"),
    "REVERSE_SHELL": CommandRule(_RUN, _BLOCK, "hands a shell to another machine"),
    "REMOTE_SCRIPT": CommandRule(
        _RUN, _BLOCK, "loads a script from the network into a system program"
    ),
    "UNTRUSTED_LOAD": CommandRule(_RUN, _BLOCK, "unpacks an object that can run code"),
    "UNTRUSTED_FILE": CommandRule(_RUN, _NOTE, "unpacks a file that can run code"),
    "INSTALL_FROM_URL": CommandRule(_RUN, _ASK, "installs a package from an address"),
    "INSTALL_FROM_GIT": CommandRule(_RUN, _NOTE, "installs a package from a repository"),
    "EVAL_UNKNOWN": CommandRule(_RUN, _NOTE, "runs text that is only known at run time"),
    "SECRET_SENT": CommandRule(_OUT, _BLOCK, "sends secrets to another machine"),
    "DATA_SENT": CommandRule(
        _OUT, _ASK, "sends files from outside the workspace to another machine"
    ),
    "WORK_SENT": CommandRule(_OUT, _NOTE, "sends files to another machine"),
    "DATA_STAGED": CommandRule(_OUT, _NOTE, "packs files from outside the workspace"),
    "SECRET_READ": CommandRule(_OUT, _ASK, "reads credentials"),
    "SECRET_NEAR": CommandRule(_OUT, _NOTE, "reads a file that often holds secrets"),
    "CREDENTIAL_DUMP": CommandRule(_OUT, _BLOCK, "takes credentials out of the system"),
    "METADATA": CommandRule(_OUT, _ASK, "asks the cloud for the machine's credentials"),
    "EAVESDROP": CommandRule(_OUT, _NOTE, "captures traffic, screen, sound or clipboard"),
    "TUNNEL": CommandRule(_OUT, _NOTE, "opens a way in from outside"),
    "HOST_FACTS": CommandRule(
        _OUT, _NOTE, "collects facts about the machine, its users or its network"
    ),
    "HOST_NOT_ALLOWED": CommandRule(
        ReasonCode.EGRESS_DENIED, _BLOCK, "reaches a host that is not allowed"
    ),
}
_FORM = {
    "DECODED_RUN": CommandRule(_HIDDEN, _ASK, "runs text that was encoded"),
    "NESTED_TOO_DEEP": CommandRule(_HIDDEN, _ASK, "nests too deep to be read"),
    "TOO_LONG": CommandRule(_HIDDEN, _ASK, "is too long to be read to its end"),
    "UNREADABLE": CommandRule(_HIDDEN, _NOTE, "cannot be parsed to its end"),
    "HIDDEN_WINDOW": CommandRule(_HIDDEN, _ASK, "runs without a window or a policy"),
    "HIDDEN_FILE": CommandRule(_HIDDEN, _NOTE, "hides a file or a user"),
    "NATIVE_CODE": CommandRule(
        ReasonCode.RISKY_IMPORT, _ASK, "imports a module that reaches native memory"
    ),
    "PROCESS_IMPORT": CommandRule(
        ReasonCode.RISKY_IMPORT, _ASK, "imports a module for an unseen use"
    ),
    "PROCESS_MODULE": CommandRule(
        ReasonCode.RISKY_IMPORT, _NOTE, "imports a module that starts processes"
    ),
    "SECRET_LITERAL": CommandRule(ReasonCode.SECRET_LEAK, _ASK, "carries a credential in its text"),
    "SECRET_PERHAPS": CommandRule(
        ReasonCode.SECRET_LEAK, _NOTE, "may carry a password in its text"
    ),
    "COMMAND_DENIED": CommandRule(
        ReasonCode.TOOL_NOT_ALLOWED, _BLOCK, "is on the list of denied commands"
    ),
}

COMMAND_RULES: dict[str, CommandRule] = {**_DESTRUCTIVE, **_PRIVILEGE, **_NETWORK, **_FORM}
