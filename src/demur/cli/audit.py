"""`demur audit`: verify and anchor the hash chains, export heads, erase and retire records."""

import json
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from demur.audit.anchors import AnchorLine, read_anchor_file
from demur.cli.main import Arguments, UsageError
from demur.cli.options import parse_period, parse_time, write_file
from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    load_settings,
    open_existing_store,
)
from demur.errors import DemurError, InputError, error_reason, one_line
from demur.gate.clock import format_timestamp, system_clock
from demur.gate.config import Config, open_configured_spool
from demur.grants.keys import KeyRing, SigningKey, load_trusted_keys, read_signing_key
from demur.model.request import DEFAULT_TENANT
from demur.observe.alerts.webhook import mask_url
from demur.observe.anchoring import deliver_anchor
from demur.store.backend import RecordFilter
from demur.store.erasure import ErasurePlan
from demur.store.events import RETIRE
from demur.store.rows import ChainHead
from demur.store.store import Store
from demur.store.verify import (
    ChainSummary,
    ChainVerification,
    LetGo,
    heads_document,
    read_heads,
    verify_chain,
)

NOTHING_TO_VERIFY = 6


def configure_audit_verify(add: Arguments) -> None:
    """Add the command's arguments."""
    add_tenant_option(add)
    add("--from SEQ", "the first record to verify", dest="first", default=1)
    add("--to SEQ", "the last record to verify", dest="last", type=int)
    add(
        "--heads FILE",
        "heads exported by `demur audit heads`: they reveal records cut off since then",
        type=Path,
    )
    add(
        "--anchors FILE",
        "anchors of `demur audit anchor`: they reveal a chain that was rewritten or cut off",
        type=Path,
    )
    add(
        "--keys FILE ...",
        "the trusted keys that signed the anchors; repeatable; default: those of the settings",
        type=Path,
        default=None,
    )
    add("--json", "one JSON object")
    add_config_option(add)


def run_audit_verify(args: Namespace) -> int:
    """Print whether the chains are valid; 1 if one is not."""
    if args.first < 1 or (args.last is not None and args.last < args.first):
        raise UsageError("records count from 1, and --to must not be before --from")
    if args.keys is not None and args.anchors is None:
        raise UsageError("--keys are those of anchors", help="add --anchors")
    config = load_settings(args)
    heads = [] if args.heads is None else _read_heads_file(args.heads)
    anchors = () if args.anchors is None else read_anchors_option(args, config)
    anchored = [end for line in anchors for end in line.anchor.checkpoints]
    with open_existing_store(config) as store:
        if args.tenant is not None:
            # Reject an unknown tenant: a valid empty chain would prove nothing.
            known_heads = (*heads, *(end.head for end in anchored))
            tenant_names = sorted({*store.backend.list_tenants(), *(h.tenant for h in known_heads)})
            if args.tenant not in tenant_names:
                known = ", ".join(tenant_names) or "no records yet"
                raise InputError(f"there is no tenant `{args.tenant}`", help=f"there are {known}")
        found = verify_chain(
            store.backend,
            args.tenant,
            first=args.first,
            last=args.last,
            heads=heads,
            anchored=anchored,
        )
    if args.json:
        print(json.dumps(_verification_to_json(found, anchors), indent=2))
    else:
        _print_verification(found, exported=args.heads is not None or bool(anchors))
        if anchors and found.holds:
            _print_anchors(anchors, found)
    if found.holds and not found.records:
        return NOTHING_TO_VERIFY
    return int(not found.holds)


def _read_heads_file(path: Path) -> list[ChainHead]:
    try:
        return read_heads(json.loads(path.read_bytes()))
    except InputError as error:
        raise InputError(error.problem, where=str(path), help=error.help) from error
    except OSError as error:
        problem = f"cannot read the heads: {error_reason(error)}"
        raise InputError(problem, where=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise InputError("not exported heads: not JSON", where=str(path)) from error


def read_anchors_option(args: Namespace, config: Config) -> Sequence[AnchorLine]:
    """Return the anchors that `--anchors` names, checked with `--keys` or those of the settings.

    Raises:
        UsageError: No trusted key is named.
        InputError: The anchors cannot be read, or no trusted key signed them.
    """
    paths = [config.keys] if args.keys is None else map(str, args.keys)
    keys = [key for path in paths for key in load_trusted_keys(path).values()]
    if not keys:
        problem = "no trusted key is named, so an anchor proves nothing"
        raise UsageError(problem, help="add --keys, or `keys` to the settings")
    return read_anchor_file(args.anchors, KeyRing(keys))


def _verification_to_json(
    found: ChainVerification, anchors: Sequence[AnchorLine]
) -> dict[str, object]:
    chains = [
        {**chain._asdict(), "let_go": [one._asdict() for one in chain.let_go]}
        for chain in found.chains
    ]
    breaks = [broken._asdict() for broken in found.breaks]
    document = {"holds": found.holds, **found._asdict(), "breaks": breaks, "chains": chains}
    return {**document, "anchors": len(anchors)}


def _print_anchors(anchors: Sequence[AnchorLine], found: ChainVerification) -> None:
    """Print what the anchors prove."""
    count, last = len(anchors), max(line.anchor.created_at for line in anchors)
    signers = ", ".join(sorted({line.signed_by for line in anchors}))
    print(f"{count} anchor{'s' * (count != 1)} signed by {signers}: every head is in its chain")
    print(f"  so nothing that was stored before {last} was changed or cut off since")
    if found.unchecked:
        heads = f"{found.unchecked} anchored head{'s' * (found.unchecked != 1)}"
        print(f"  {heads} cannot be checked any more: the places were retired since")


def _describe_let_go(chain: ChainSummary) -> Iterator[str]:
    """Yield who let go of which records of a chain, and why."""
    groups: dict[tuple[str, str, str, str, bool], list[LetGo]] = {}
    for one in chain.let_go:
        # Large numbers go in batches, each with its event.
        group = (one.kind, one.created_at[:10], one.by, one.reason, one.adopted)
        groups.setdefault(group, []).append(one)
    for (kind, day, by, reason, _), events in groups.items():
        numbers = [one.records for one in events if one.records is not None]
        what = _count_items(sum(numbers), "record") if numbers else "records"
        others = Counter[str]()
        for one in events:
            others.update(one.others)
        if others:
            what = ", ".join([what] * bool(sum(numbers)) + [_list_others(others)])
        places = f" up to {max(one.last or 0 for one in events)}" if kind == RETIRE else ""
        word = "retired" if kind == RETIRE else "erased"
        yield f"{word} {what}{places} on {day} by {by}: {reason}"


def _print_verification(found: ChainVerification, *, exported: bool) -> None:
    paint = Paint()
    for broken in found.breaks:
        named = "" if broken.decision_id is None else f" ({broken.decision_id})"
        place = one_line(f"tenant {broken.tenant}, record {broken.seq}{named}: {broken.problem}")
        print(f"{paint('broken:', 'bold', 'red')} {place}")
    records = f"{found.records} record{'s' * (found.records != 1)}"
    tenants = f"{found.tenants} tenant{'s' * (found.tenants != 1)}"
    more = [
        f"{count} {word}"
        for count, word in ((found.erased, "erased"), (found.unconfirmed, "unconfirmed"))
        if count
    ]
    summary = f"{records} of {tenants}" + (f" ({', '.join(more)})" if more else "")
    if not found.holds:
        print(paint(f"{summary} read up to there", "dim"))
    elif not found.records:
        print("no records yet: nothing to verify")
    else:
        print(f"{paint('ok', 'green')} the chains are valid: {summary}")
        for chain in found.chains:
            lines = list(_describe_let_go(chain))
            if lines:
                print(one_line(f"tenant {chain.tenant} begins at {chain.begins}"))
            for line in lines:
                print(f"  {one_line(line)}")
        if not exported:
            hint = "--heads with an earlier export also reveals records that were cut off"
            print(paint(hint, "dim"))


def configure_audit_heads(add: Arguments) -> None:
    """Add the command's arguments."""
    add("--out FILE", "write to this file; an existing file is never replaced", type=Path)
    add_config_option(add)


def run_audit_heads(args: Namespace) -> int:
    """Export the heads as JSON."""
    with open_existing_store(load_settings(args)) as store:
        heads = store.list_heads(durable=True)
    document = json.dumps(heads_document(heads, format_timestamp(system_clock())), indent=2)
    if args.out is None:
        print(document)
        return 0
    write_file(args.out, document + "\n", new="earlier exports are evidence: choose another file")
    print(f"{args.out}: {len(heads)} head{'s' * (len(heads) != 1)}")
    print(
        "  keep it where the store's writers have no access; `demur audit verify --heads` reads it"
    )
    return 0


def configure_audit_checkpoint(add: Arguments) -> None:
    """Add the command's arguments."""
    add("--json", "a list of JSON objects")
    add_config_option(add)


def run_audit_checkpoint(args: Namespace) -> int:
    """Store the heads, and print them."""
    now = format_timestamp(system_clock())
    with open_existing_store(load_settings(args)) as store:
        heads = store.save_checkpoint(now)
    if args.json:
        print(json.dumps([{**head._asdict(), "created_at": now} for head in heads], indent=2))
    elif not heads:
        print("no records yet: there are no heads to store")
    else:
        rows = ((head.tenant, str(head.seq), head.hash) for head in heads)
        print(format_table(rows, ("TENANT", "PLACE", "HASH"), Paint()))
        print(f"stored at {now}; `demur audit verify` checks the chains against it from now on")
    return 0


def configure_audit_anchor(add: Arguments) -> None:
    """Add the command's arguments."""
    place = add.either(required=True)
    place("--out FILE", "append to this file; it is created readable by its owner only", type=Path)
    place("--url URL", "send it to this address with POST; messages show only its host")
    add("--key FILE", "your NAME.key.json, as for grants", required=True, type=Path)
    add("--every PERIOD", "again and again, like 30m or 1h; default: once")
    add_config_option(add)


def run_audit_anchor(args: Namespace) -> int:
    """Sign the heads and write them, once or again and again."""
    pause = None if args.every is None else parse_period(args.every)
    config, key = load_settings(args), read_signing_key(args.key)
    if args.url is not None:
        mask_url(args.url)
    target = str(args.out) if args.url is None else args.url
    with open_existing_store(config) as store:
        while True:
            try:
                _write_anchor(store, key, target)
            except DemurError as error:
                if pause is None:
                    raise
                # An outage must not end the schedule.
                print(f"not anchored: {error}", file=sys.stderr, flush=True)
            if pause is None:
                return 0
            try:
                time.sleep(pause.total_seconds())
            except KeyboardInterrupt:
                return 0


def _write_anchor(store: Store, key: SigningKey, target: str) -> None:
    done = deliver_anchor(store, key, target, system_clock())
    count = f"{done.heads} head{'s' * (done.heads != 1)}"
    words = f"{done.place}: anchored {count} at {done.created_at}, signed by {key.holder}"
    print(words, flush=True)


def _add_author_options(add: Arguments) -> None:
    add("--by WHO", "who lets go of them: a person or a job; it stays in the chain")
    add("--reason WHY", "why; it stays in the chain, so name no person whose data goes")


def _require_author(args: Namespace) -> dict[str, str]:
    """Return who lets go of records and why.

    Raises:
        UsageError: `--yes` is given without them.
    """
    if args.yes and not (args.by and args.reason):
        problem = "--yes needs --by and --reason: an event of the chain says who and why"
        raise UsageError(problem, help="like --by ops@example.com --reason 'one year is over'")
    return {"by": args.by or "", "reason": args.reason or ""}


def configure_audit_erase(add: Arguments) -> None:
    """Add the command's arguments."""
    whose = add.either(required=True)
    whose("--subject WHO", "the subject, like `agent:billing`")
    whose(
        "--identifier TEXT",
        "any identifier in what came in: an e-mail address, an account number, a name",
    )
    _add_author_options(add)
    add_tenant_option(add, f"the tenant of the records; default: `{DEFAULT_TENANT}`")
    add("--yes", "erase; default: only print what would be erased")
    add("--json", "one JSON object")
    add_config_option(add)


def run_audit_erase(args: Namespace) -> int:
    """Erase, or print what would be erased."""
    author = _require_author(args)
    config, tenant = load_settings(args), args.tenant or DEFAULT_TENANT
    whose = args.subject or args.identifier
    with open_existing_store(config) as store:
        if args.subject is not None:
            record_filter = RecordFilter(tenant=tenant, subject=args.subject)
            ids = tuple(record.decision_id for record in store.find_records(record_filter))
            plan = ErasurePlan(tenant, ids)
            if ids and args.yes:
                store.erase_subject(tenant, args.subject, **author)
        else:
            plan = store.plan_erasure(tenant, whose)
            if args.yes:
                store.erase_planned(plan, **author)
    if plan.is_empty:
        raise InputError(
            f"tenant `{tenant}` has no records of `{whose}`",
            help="write it as in the requests, like `agent:billing`",
        )
    spool = open_configured_spool(config)
    left = None if spool is None or not spool.path.exists() else spool.path
    if args.json:
        others = {kind: len(keys) for kind, keys in plan.others.items()}
        fields = {"records": len(plan.decision_ids), "erased": bool(args.yes)}
        kept = {"open_parts": plan.open_parts, "others": others, "kept": plan.kept}
        print(json.dumps({"tenant": tenant, **fields, **kept}))
    else:
        print("\n".join(_describe_erasure(plan, whose, done=args.yes)))
        if left is not None:
            print(f"note: {left} holds decisions that were never stored; check it, too")
    return int(not args.yes)


def _count_items(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _list_others(others: Mapping[str, int]) -> str:
    """Return counts by kind as words: `2 grants, 1 note`."""
    return ", ".join(_count_items(count, kind.removesuffix("s")) for kind, count in others.items())


def _describe_erasure(plan: ErasurePlan, whose: str, *, done: bool) -> Iterator[str]:
    what = f"{_count_items(len(plan.decision_ids), 'record')} of {whose}, tenant {plan.tenant}"
    others = _list_others({kind: len(keys) for kind, keys in plan.others.items() if keys})
    if done:
        yield f"erased the personal part of {what}"
        if others:
            yield f"  and {others} that held it"
        yield "  the decisions and their reasons remain, and the chain stays valid"
        yield "  an event of the chain names the decisions, who erased them and why"
    else:
        yield f"would erase the personal part of {what}, and the experiences learned from them"
        if others:
            yield f"  and {others} that hold it"
        yield "  nothing was erased; --yes erases, and cannot be undone"
    fields = [
        f"{place.removeprefix('record.')} of {count}"
        for place, count in sorted(plan.kept.items())
        if place.startswith("record.")
    ]
    if fields:
        records = _count_items(plan.open_parts, "record")
        keep = "keeps" if plan.open_parts == 1 else "keep"
        yield f"note: {records} {keep} it in the open part, which the chain covers"
        yield f"  {', '.join(fields)}"
    for place, noun in (
        ("event", "event of the chain"),
        ("label.by", "label that says who judged"),
        ("revocation", "revocation that says who revoked"),
        ("vote.person", "vote that says who approved or declined"),
        ("approval.closed_by", "request that says who decided it"),
        ("person", "account of a person"),
        ("key", "API key with its note and subjects"),
    ):
        if count := plan.kept.get(place, 0):
            yield f"note: it stays in {count} x {noun}"


def configure_audit_retire(add: Arguments) -> None:
    """Add the command's arguments."""
    add("--before WHEN", "a day, a time, or an age like 365d", required=True)
    _add_author_options(add)
    add_tenant_option(add, f"the tenant of the records; default: `{DEFAULT_TENANT}`")
    add("--yes", "delete; default: only print what would be deleted")
    add("--json", "one JSON object")
    add_config_option(add)


def run_audit_retire(args: Namespace) -> int:
    """Delete, or print what would be deleted."""
    author = _require_author(args)
    tenant = args.tenant or DEFAULT_TENANT
    before = format_timestamp(parse_time(args.before, system_clock()))
    with open_existing_store(load_settings(args)) as store:
        plan = store.backend.plan_retirement(tenant, before, format_timestamp(system_clock()))
        count = plan.records
        if count and args.yes:
            count = store.retire_records(tenant, before, **author)
    if not count:
        raise InputError(f"tenant `{tenant}` has no records from before {before}")
    if args.json:
        fields = {"tenant": tenant, "before": before, "records": count, "retired": bool(args.yes)}
        print(json.dumps({**fields, "later": plan.later}))
    else:
        _print_retirement(
            args,
            f"{count} record{'s' * (count != 1)} of tenant {tenant} from before {before}",
            plan.later,
        )
    return int(not args.yes)


def _print_retirement(args: Namespace, what: str, later: int) -> None:
    if later:
        print(f"note: {later} of them carry a later time, and stand among the older ones")
    if args.yes:
        print(f"retired {what}")
        print("  the chain continues from the last of them; `demur audit verify` still verifies it")
    else:
        print(f"would delete {what}")
        print("  nothing was deleted; --yes deletes, and cannot be undone")
