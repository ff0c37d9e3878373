"""Programs that manage shared data: repositories, databases, clouds, clusters, archives."""

import fnmatch
import re
from collections.abc import Iterator

from demur.guards.code_execution.call import CommandHit, ProgramCall, parse_options
from demur.guards.code_execution.context import CommandCheck, CommandContext, CommandRows
from demur.guards.code_execution.effects import EffectKind, find_effects

__all__ = ["DATA_CHECKS", "DATA_ROWS"]


def _check_git(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    args = list(call.args)
    while args and args[0].text.startswith("-"):
        del args[: 2 if args[0].text in {"-c", "-C", "--git-dir", "--work-tree"} else 1]
    if not args:
        return
    rest = args[1:]
    given = parse_options(rest, frozenset({"-m", "-o", "--push-option"}))
    texts = [arg.text for arg in rest]
    action = args[0].text
    if action == "push":
        yield from _check_push(texts, [arg.text for arg in given.operands], context)
    elif action == "clean":
        deep = given.has_any("-x", "-X", "-d")
        if given.has_any("-f", "--force") and not given.has_any("-n", "--dry-run", "-i") and deep:
            yield CommandHit("GIT_CLEAN", "untracked files")
    elif action in _REWRITES and re.search(_REWRITES[action], " ".join(texts)):
        yield CommandHit("GIT_REWRITE", action)


_REWRITES = {
    "reset": r"--hard",
    "checkout": r"(?:^| )(?:-f|--force|\.)(?: |$)",
    "restore": r"(?:^| )\.(?: |$)",
    "filter-branch": r"",
    "filter-repo": r"",
    "reflog": r"^(?:expire|delete)",
    "gc": r"--prune=now",
    "stash": r"^(?:drop|clear)",
    "branch": r"(?:^| )-D",
    "update-ref": r"-d",
}


def _check_push(
    texts: list[str], operands: list[str], context: CommandContext
) -> Iterator[CommandHit]:
    forced = any(text in {"-f", "--force", "--mirror"} for text in texts)
    refs = operands[1:]
    forced = forced or any(ref.startswith("+") for ref in refs)
    removed = any(text in {"-d", "--delete"} for text in texts) or any(
        r.startswith(":") for r in refs
    )
    if not forced and not removed:
        return
    names = [ref.lstrip("+:").rpartition(":")[2].removeprefix("refs/heads/") for ref in refs]
    protected = [
        n for n in names if any(fnmatch.fnmatchcase(n, b) for b in context.config.branches)
    ]
    if protected or "--mirror" in texts:
        yield CommandHit("GIT_FORCE_PUSH", protected[0] if protected else "every branch")
    else:
        yield CommandHit("GIT_REWRITE", names[0] if names else "the current branch")


_DROPS = re.compile(
    r"(?i)\b(?:drop\s+(?:database|schema|table|user|role)|truncate\s+(?:table\s+)?\w+|flushall|flushdb"
    r"|dropdatabase\s*\(|\.drop\s*\(|deletemany\s*\(\s*\{\s*\}\s*\)"
    r"|delete\s+from\s+[\w.\"`]+\s*(?:;|$|where\s+(?:1\s*=\s*1|true)))"
)


def _check_database(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    text = " ".join(call.texts)
    for given in (text, call.stdin.text):
        if match := _DROPS.search(given):
            yield CommandHit("DROP_DATABASE", " ".join(match[0].split()[:2]).lower())
            return


_LOCKS = {
    "gpg": r"(?:^| )(?:-c|-e|-ce|--symmetric|--encrypt)\b",
    "openssl": r"^(?:enc\b(?!.* -d\b)|rsautl .*-encrypt|smime .*-encrypt|cms .*-encrypt)",
    "7z": r"(?:^| )-p\S*",
    "7za": r"(?:^| )-p\S*",
    "rar": r"(?:^| )-h?p\S*",
    "zip": r"(?:^| )(?:-e|-P|--encrypt|--password)\b",
    "ccencrypt": r"",
    "ccrypt": r"(?:-e|--encrypt)",
    "age": r"(?:-p|-r|-e)\b",
}
_PACKERS = frozenset({"tar", "zip", "7z", "7za", "rar", "gzip", "ditto", "cpio"})


def check_packed(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    """Yield a hit if the call encrypts or packs files outside the workspace."""
    foreign = [
        effect.target
        for effect in find_effects(call)
        if effect.kind is EffectKind.READ and not context.is_own_path(effect.target, call.cwd)
    ]
    if not foreign:
        return
    if call.verb in _LOCKS and re.search(_LOCKS[call.verb], " ".join(call.texts)):
        yield CommandHit("ENCRYPT_IN_PLACE", foreign[0].text)
    elif call.verb in _PACKERS:
        yield CommandHit("DATA_STAGED", foreign[0].text)


DATA_ROWS: CommandRows = {
    "dropdb": (("DROP_DATABASE", r"\S"),),
    "dropuser": (("ACCOUNT_CHANGE", r"\S"),),
    "mysqladmin": (("DROP_DATABASE", r"\bdrop\b"), ("SHUT_DOWN", r"\bshutdown\b")),
    "terraform": (
        (
            "DELETE_RESOURCES",
            r"(?:destroy\b|apply\b.*-destroy).*-auto-approve|-auto-approve.*destroy|^destroy -auto",
        ),
    ),
    "tofu": (("DELETE_RESOURCES", r"(?:destroy\b|apply\b.*-destroy).*-auto-approve"),),
    "pulumi": (("DELETE_RESOURCES", r"destroy\b.*(?:--yes|-y)"),),
    "kubectl": (
        (
            "DELETE_RESOURCES",
            r"^delete\b.*(?:--all\b|(?:ns|namespaces?|pvc?|persistentvolume\w*|nodes?|crds?)[ /])",
        ),
        ("CONTAINER_ESCAPE", r"--overrides.*(?:hostPID|privileged|hostPath)"),
        ("SECRET_READ", r"\bget secrets?\b.*(?:-o ?|--output[= ])(?:ya?ml|json)"),
        ("CLOUD_RIGHTS", r"create (?:cluster)?rolebinding|create token"),
    ),
    "helm": (("DELETE_RESOURCES", r"^(?:uninstall|delete)\b.*--all"),),
    "aws": (
        (
            "DELETE_RESOURCES",
            (
                r"s3 rb\b.*--force|s3 rm\b.*--recursive|rds delete-db\S* "
                r".*--skip-final-snapshot|cloudformation delete-stack"
            ),
        ),
        (
            "DEFENCE_OFF",
            (
                r"cloudtrail (?:stop-logging|delete-trail|update-trail"
                r"|put-event-selectors)|logs delete-log-|guardduty delete-detector"
                r"|configservice stop|delete-flow-logs"
            ),
        ),
        (
            "CLOUD_RIGHTS",
            (
                r"iam (?:create-(?:user|access-key|login-profile)|attach-\S+"
                r"|put-\S+-policy|add-user-to-group)"
            ),
        ),
        ("CREDENTIAL_DUMP", r"ec2 get-password-data|secretsmanager batch-get"),
        ("SECRET_NEAR", r"secretsmanager get-secret-value|ssm get-parameters? .*--with-decryption"),
        ("REMOTE_EXECUTION", r"ssm send-command"),
        ("HOST_FACTS", r"\b(?:list|describe|get)-"),
    ),
    "gcloud": (
        ("DELETE_RESOURCES", r"projects delete\b.*--quiet"),
        (
            "CLOUD_RIGHTS",
            r"add-iam-policy-binding|service-accounts (?:keys )?create|iam roles create",
        ),
        ("DEFENCE_OFF", r"logging (?:sinks|buckets) delete"),
        ("HOST_FACTS", r"\b(?:list|describe)\b"),
    ),
    "az": (
        ("DELETE_RESOURCES", r"group delete\b.*(?:--yes|-y)\b"),
        ("CLOUD_RIGHTS", r"role assignment create|ad (?:sp|user|app) (?:create|credential)"),
        ("REMOTE_EXECUTION", r"vm run-command"),
        ("HOST_FACTS", r"\b(?:list|show)\b"),
    ),
    "docker": (
        ("DELETE_RESOURCES", r"(?:system|volume) prune\b(?=.*(?:-a|--all))(?=.*(?:-f|--force))"),
    ),
    "redis-cli": (("DROP_DATABASE", r"(?i)flushall|flushdb"),),
}


def check_disguised(call: ProgramCall, _: CommandContext) -> Iterator[CommandHit]:
    """Yield a hit if the call copies an interpreter to another name."""
    operands = parse_options(call.args).operands
    if len(operands) == 2 and _INTERPRETER.fullmatch(operands[0].text):
        name = operands[0].text.rpartition("/")[2]
        if not operands[1].text.rstrip("/").endswith(name) and not operands[1].text.endswith("/"):
            yield CommandHit("PROXY_EXECUTION", name)


_INTERPRETER = re.compile(
    r"(?:/usr)?(?:/local)?/bin/(?:ba|z|da|k|c)?sh|/usr/bin/(?:python|perl|ruby|nc|curl|wget)[\d.]*"
)

DATA_CHECKS: dict[str, tuple[CommandCheck, ...]] = {
    **dict.fromkeys(("cp", "mv", "install"), (check_disguised,)),
    "git": (_check_git,),
    **dict.fromkeys(sorted({*_LOCKS, *_PACKERS}), (check_packed,)),
    **dict.fromkeys(
        (
            "mysql",
            "mariadb",
            "psql",
            "sqlite3",
            "mongo",
            "mongosh",
            "sqlcmd",
            "cqlsh",
            "clickhouse-client",
        ),
        (_check_database,),
    ),
}
