"""Registries, however their files are ordered and whatever an organisation writes into one."""

import json
from collections.abc import Mapping
from itertools import permutations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from demur.codes.document import RegistryDocument, read_document
from demur.codes.entry import Entry
from demur.codes.markup import escape_cell
from demur.codes.registry import CORE_PATH, Registry
from demur.codes.vocabulary import Advice, Effect, GrantKind, Obligation, RefusalClass, RetryScope
from demur.errors import Problem, RegistryError

CORE = read_document(CORE_PATH)
PARENTS = st.sampled_from([row.code for row in CORE.rows])
LIFTING = {Advice.ACCEPT_CONSTRAINTS, Advice.PROVIDE_CONTEXT, Advice.REQUEST_APPROVAL}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def organisation(domain: str, *rows: Mapping[str, Any], **head: Any) -> RegistryDocument:
    file = {
        "schema_version": "reason_codes.v1",
        "version": "1.0.0",
        "domain": domain,
        **head,
        "codes": [{"description": "Made up.", "since": "1.0.0", **row} for row in rows],
    }
    return read_document(f"{domain}.json", json.dumps(file))


def lists_of(words: type[GrantKind | Obligation]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from([str(word) for word in words]), unique=True)


ROWS = st.fixed_dictionaries(
    {"code": st.just("acme.com/MADE_UP"), "parent": PARENTS},
    optional={
        "effect": st.sampled_from(list(Effect)),
        "refusal_class": st.none() | st.sampled_from(list(RefusalClass)),
        "advice": st.none() | st.sampled_from(list(Advice)),
        "retry_scope": st.none() | st.sampled_from(list(RetryScope)),
        "decided": st.booleans(),
        "grants": lists_of(GrantKind),
        "obligations": lists_of(Obligation),
    },
)


def merged(row: Mapping[str, Any]) -> Entry | None:
    """Return the entry that `row` becomes, or None if its registry is refused."""
    try:
        return Registry(CORE, [organisation("acme.com", row)])["acme.com/MADE_UP"]
    except RegistryError:
        return None


@given(ROWS)
def test_only_a_workflow_block_names_grants_and_a_hard_block_advises_no_way_around(
    row: Mapping[str, Any],
) -> None:
    """INVARIANT: only a workflow block names grants, and a hard block advises no way around."""
    entry = merged(row)

    if entry is not None and entry.grants:
        assert entry.refusal_class is RefusalClass.WORKFLOW_BLOCK
        assert entry.decided
    if entry is not None and entry.refusal_class is RefusalClass.HARD_BLOCK:
        assert entry.advice not in LIFTING


@given(ROWS)
def test_a_child_may_tighten_its_parent_but_never_weaken_it(row: Mapping[str, Any]) -> None:
    entry, parent = merged(row), Registry(CORE)[row["parent"]]
    if entry is None:
        return

    assert (entry.effect, entry.decided) == (parent.effect, parent.decided)
    assert set(entry.obligations) >= set(parent.obligations)
    if entry.refusal_class is not None and parent.refusal_class is not None:
        assert entry.refusal_class.strictness >= parent.refusal_class.strictness
    if entry.refusal_class is parent.refusal_class:
        assert set(entry.grants) <= set(parent.grants)


@given(PARENTS)
def test_a_row_that_says_only_what_it_must_is_always_taken(parent: str) -> None:
    assert merged({"code": "acme.com/MADE_UP", "parent": parent}) is not None


PLAIN_PARENTS = st.sampled_from(["POLICY_VIOLATION", "RATE_LIMIT", "CONTEXT_MISSING"])


@given(
    st.lists(st.sampled_from(["a.com", "b.com", "c.com"]), unique=True, min_size=2),
    st.lists(PLAIN_PARENTS, min_size=1, max_size=3),
)
def test_the_order_of_the_files_makes_no_difference(domains: list[str], parents: list[str]) -> None:
    documents = [
        organisation(
            domain,
            *(
                {"code": f"{domain}/REASON_{'X' * number}", "parent": parent}
                for number, parent in enumerate(parents, start=1)
            ),
            phrases={f"{domain} says no": parents[0]},
        )
        for domain in domains
    ]
    first, *others = [
        (list(registry), dict(registry.phrases), registry.label)
        for order in permutations(documents)
        for registry in [Registry(CORE, order)]
    ]

    assert all(other == first for other in others)


@given(st.lists(st.sampled_from(["a.com", "b.com", "c.com"]), unique=True, min_size=2))
def test_the_order_of_files_that_clash_makes_no_difference_to_the_problems(
    domains: list[str],
) -> None:
    codes = {"a.com": "RATE_LIMIT", "b.com": "LOOP_DETECTED", "c.com": "MODEL_DECLINED"}
    clashing = [organisation(domain, phrases={"we say no": codes[domain]}) for domain in domains]
    found = set()
    for order in permutations(clashing):
        try:
            Registry(CORE, order)
        except RegistryError as error:
            found.add(error.problems)

    [problems] = found
    assert len(problems) == len(domains) - 1


def problems_of(text: str) -> tuple[Problem, ...]:
    try:
        Registry(CORE, [read_document("any.json", text)])
    except RegistryError as error:
        return error.problems
    return ()


@given(
    st.dictionaries(
        st.sampled_from(["version", "domain", "min_core", "phrases", "codes", "colour"]), JSON
    )
)
def test_any_file_is_a_registry_or_a_registry_error(fields: dict[str, object]) -> None:
    text = json.dumps({"schema_version": "reason_codes.v1", **fields})

    places = [problem.where or "" for problem in problems_of(text)]
    assert all(place.startswith("any.json") for place in places)


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_is_a_registry_or_a_registry_error(text: str) -> None:
    places = [problem.where or "" for problem in problems_of(text)]

    # Text by chance is never a registry.
    assert places
    assert all(place.startswith("any.json") for place in places)


@given(st.text("=+-@ \t\r\n\x00'a1\uff1d", max_size=6))
def test_no_cell_of_a_csv_file_begins_like_a_formula(text: str) -> None:
    """INVARIANT: no cell that demur writes begins like a formula."""
    cell = escape_cell(text)

    assert cell in {text, f"'{text}"}
    assert cell == "-" or not cell.lstrip(" \x00").startswith(tuple("=+-@\t\r\n\uff1d"))
