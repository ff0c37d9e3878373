"""Say which values of the newest SDKs no mapping of ours knows, and what to add where.

The SDKs are installed into a folder of their own, as wheels and without what they depend
on: their sources are read, and nothing of them runs.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import NamedTuple

from sdk_search import unwatched
from sdk_values import MissingPlaceError, Sources

from demur.providers.signals import (
    NativeField,
    ProviderSystem,
    SdkType,
    SignalOutcome,
    list_systems,
    load_system,
    looks_like_policy,
)

__all__ = ["Drift", "discoveries", "drifts", "main", "report", "versions"]

DATA = "src/demur/providers/data"
# Words of every approval and access list: they say nothing about where they stand.
_COMMON = {"block", "blocked", "deny", "denied", "moderation", "refusal", "reject", "rejected"}
_HELP = "make drift installs the SDKs of requirements/drift.in and runs this"


class Drift(NamedTuple):
    """A place in an SDK where the mapping fell behind: values it lacks, or why none were read."""

    system: ProviderSystem
    field: NativeField
    sdk: SdkType
    unmapped: tuple[str, ...] = ()
    problem: str = ""


def drifts(mappings: Iterable[ProviderSystem], sources: Sources) -> Iterator[Drift]:
    """Yield every place of which a value is not mapped, or which cannot be read any more."""
    for mapping in mappings:
        for field in mapping.signals:
            for sdk in field.sdk:
                try:
                    values = sources.values(sdk.at)
                except MissingPlaceError as error:
                    yield Drift(mapping, field, sdk, problem=str(error))
                    continue
                unmapped = tuple(sorted(v for v in values if not field.interpret(v).known))
                if unmapped:
                    yield Drift(mapping, field, sdk, unmapped)


def report(drift: Drift, version: str) -> str:
    """Return what to add to which file, ready to be pasted."""
    where = f"{DATA}/{drift.system.system}.json: signal `{drift.field.id}`"
    what = f"{drift.sdk.package} {version}, {drift.sdk.at}"
    if drift.problem:
        return f"{where}: {drift.problem}\n  help: {what} has moved; correct `sdk`"
    count = "1 value is" if len(drift.unmapped) == 1 else f"{len(drift.unmapped)} values are"
    rows = "".join(f"\n  add: {_row(drift.field, value)}" for value in drift.unmapped)
    return f"{where}: {count} not mapped ({what}){rows}"


def _row(field: NativeField, value: str) -> str:
    """Return the row for a value, with what it is taken for as long as nobody has judged it."""
    judged = field.interpret(value)
    row = {"value": value, "outcome": str(judged.outcome)}
    if judged.code is not None:
        row |= {"code": judged.code, "class": str(judged.refusal_class)}
    return json.dumps(row, ensure_ascii=False)


def versions(folder: Path) -> dict[str, str]:
    """Return the version of each package in the folder, by its normalised name."""
    found = distributions(path=[str(folder)])
    return {_normalised(one.metadata["Name"]): one.version for one in found}


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _read_at(mappings: Iterable[ProviderSystem], installed: dict[str, str]) -> Iterator[str]:
    """Yield which packages are newer than when their mapping was read."""
    for mapping in mappings:
        for package, read in mapping.packages.items():
            now = installed.get(_normalised(package), read)
            if now != read:
                yield f"{mapping.system}: {package} was read at {read} and is {now} now"


def discoveries(mappings: Iterable[ProviderSystem], folder: Path) -> Iterator[str]:
    """Yield places that no mapping watches and that hold a value which no mapping knows."""
    fields = [field for mapping in mappings for field in mapping.signals]
    watched = {sdk.at for field in fields for sdk in field.sdk}
    listed = {value.value: value for field in fields for value in field.values}
    telling = {
        name
        for name, value in listed.items()
        if value.outcome is SignalOutcome.REFUSAL
        and looks_like_policy(name)
        and name.lower() not in _COMMON
    }
    folded = {_plain(name) for name in listed}
    for at, values in unwatched(folder, telling, watched):
        new = [value for value in values if _plain(value) not in folded]
        if new:
            known = ", ".join(sorted(telling.intersection(values)))
            yield f"{at} declares {known}, and beside it what no mapping has: {', '.join(new)}"


def _plain(value: str) -> str:
    return value.lower().replace("-", "_")


def main(argv: Sequence[str] | None = None) -> int:
    """Compare and report; 0 if every value is mapped, 1 if not, 2 if there is nothing to read."""
    parser = argparse.ArgumentParser(description=__doc__, epilog=_HELP)
    parser.add_argument("folder", type=Path, help="where the SDKs are installed")
    parser.add_argument("--system", action="append", help="look at this system alone")
    parser.add_argument(
        "--discover", action="store_true", help="also name places that no mapping watches"
    )
    args = parser.parse_args(argv)
    installed = versions(args.folder)
    if not installed:
        print(f"error: {args.folder}: no SDK is installed there\n  help: {_HELP}", file=sys.stderr)
        return 2
    mappings = [load_system(name) for name in args.system or list_systems()]
    found = list(drifts(mappings, Sources(args.folder)))
    for drift in found:
        version = installed.get(_normalised(drift.sdk.package), "(not installed)")
        print(report(drift, version))
    for news in _read_at(mappings, installed):
        print(f"note: {news}")
    for place in discoveries(mappings, args.folder) if args.discover else ():
        print(f"unwatched: {place}")
    places = sum(len(field.sdk) for mapping in mappings for field in mapping.signals)
    unmapped = sum(len(drift.unmapped) for drift in found)
    unread = sum(bool(drift.problem) for drift in found)
    print(f"{places} places read, {unmapped} values not mapped, {unread} places not found")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
