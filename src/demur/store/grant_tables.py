"""Tables of grants: the signed grants of decisions, how often each was used, and revocations.

A record keeps a digest in place of a signature. The signed grant is here, for later attempts of
the same request and for audits; only admins read it.
"""

# ruff: noqa: S608 - statements are built from our own names; values are bound

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from demur.store.backend import insert_statement
from demur.store.erasure import ErasureSql
from demur.store.rows import ApprovalRow, ResolvedApproval

# The tenant of a revocation that holds for all tenants.
ALL_TENANTS = ""


class GrantRow(NamedTuple):
    """A signed grant that came with a decision; `signed_grant` is its JSON."""

    tenant: str
    digest: str
    grant_id: str
    granted_to: str
    decision_id: str
    created_at: str
    expires_at: str
    signed_grant: str


class GrantUse(NamedTuple):
    """A use of a grant that may be used `max_uses` times."""

    digest: str
    max_uses: int


class RecordGrants(NamedTuple):
    """The grants to store with a record, and the uses that it takes.

    `opens` is the request for approval that it begins, `resolves` the one that it ends.
    """

    rows: tuple[GrantRow, ...] = ()
    uses: tuple[GrantUse, ...] = ()
    opens: ApprovalRow | None = None
    resolves: ResolvedApproval | None = None


class Revocation(NamedTuple):
    """A grant that no longer counts; an empty tenant stands for all tenants."""

    tenant: str
    grant_id: str
    revoked_at: str
    revoked_by: str
    note: str


NO_GRANTS = RecordGrants()
_SAVE_REVOCATION = (
    f"{insert_statement('grant_revocations', Revocation._fields)} ON CONFLICT DO NOTHING"
)
_SELECT_GRANTS = f"SELECT {', '.join(GrantRow._fields)} FROM grants"
_SELECT_REVOCATIONS = f"SELECT {', '.join(Revocation._fields)} FROM grant_revocations"
_IN_TENANT = "(CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant)"


def name_values(values: Collection[str]) -> tuple[str, dict[str, str]]:
    """Return the placeholders of a list, and its values by name."""
    named = {f"value_{number}": value for number, value in enumerate(values)}
    return ", ".join(f":{name}" for name in named), named


class GrantSql(ErasureSql):
    """The statements that read grants, uses and revocations, and that revoke."""

    def find_revoked(self, tenant: str, grant_ids: Collection[str]) -> frozenset[str]:
        """Return those of the grants that were revoked, for a tenant or for all."""
        among, values = name_values(grant_ids)
        query = f"""
            SELECT grant_id FROM grant_revocations
            WHERE tenant IN (:tenant, :every) AND grant_id IN ({among})
        """
        places = {"tenant": tenant, "every": ALL_TENANTS, **values}
        return frozenset(row[0] for row in self._run_query(query, places, bounded=True))

    def revoke_grant(self, revocation: Revocation) -> bool:
        """Revoke a grant; return False if it was revoked before."""
        with self._open_write() as execute:
            return bool(execute(_SAVE_REVOCATION, revocation._asdict()).rowcount > 0)

    def list_revocations(self, tenant: str | None = None) -> list[Revocation]:
        """Return the revocations, oldest first; with `tenant`, those that it sees."""
        query = f"""
            {_SELECT_REVOCATIONS} WHERE {_IN_TENANT} OR tenant = :every
            ORDER BY revoked_at, tenant, grant_id
        """
        rows = self._run_query(query, {"tenant": tenant, "every": ALL_TENANTS})
        return [Revocation(*row) for row in rows]

    def count_uses(self, digests: Collection[str]) -> Mapping[str, int]:
        """Return how often each of the grants was used; unused ones are left out."""
        among, values = name_values(digests)
        query = f"SELECT digest, used FROM grant_uses WHERE digest IN ({among})"
        return {row[0]: int(row[1]) for row in self._run_query(query, values, bounded=True)}

    def find_grants(self, tenant: str, digests: Collection[str]) -> list[GrantRow]:
        """Return the signed grants with these digests."""
        among, values = name_values(digests)
        query = f"{_SELECT_GRANTS} WHERE tenant = :tenant AND digest IN ({among})"
        rows = self._run_query(query, {"tenant": tenant, **values}, bounded=True)
        return [GrantRow(*row) for row in rows]

    def list_grants(
        self, tenant: str | None = None, grant_id: str | None = None, limit: int | None = None
    ) -> list[GrantRow]:
        """Return the signed grants (of a tenant, with an id), newest first."""
        query = f"""
            {_SELECT_GRANTS} WHERE {_IN_TENANT}
            AND (CAST(:grant_id AS TEXT) IS NULL OR grant_id = :grant_id)
            ORDER BY created_at DESC, tenant, digest {"" if limit is None else "LIMIT :limit"}
        """
        values: dict[str, Any] = {"tenant": tenant, "grant_id": grant_id}
        if limit is not None:
            values["limit"] = limit
        return [GrantRow(*row) for row in self._run_query(query, values)]
