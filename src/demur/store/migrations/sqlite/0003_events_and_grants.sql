-- Event links: what was done to a chain (retired, erased), in the chain itself. An event has a place
-- (`seq`) among the records of its tenant, and is no decision. `event` is canonical JSON, which the
-- hash covers; the other columns repeat its fields for queries.
CREATE TABLE chain_events (
    tenant TEXT NOT NULL,
    seq INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    kind TEXT NOT NULL,
    by TEXT NOT NULL,
    reason TEXT NOT NULL,
    event TEXT NOT NULL,
    previous_hash TEXT NOT NULL,
    event_hash TEXT NOT NULL,
    PRIMARY KEY (tenant, seq)
);

CREATE TRIGGER chain_events_are_not_changed
BEFORE UPDATE ON chain_events
BEGIN
    SELECT RAISE(ABORT, 'chain events are append-only');
END;

CREATE TRIGGER chain_events_are_not_deleted
BEFORE DELETE ON chain_events
BEGIN
    SELECT RAISE(ABORT, 'chain events are append-only');
END;

-- Signed grants that came with decisions. Records hold only a digest, because a signature would let
-- every reader use the grant; this table is for later attempts of a request, and for admins.
CREATE TABLE grants (
    tenant TEXT NOT NULL,
    digest TEXT NOT NULL,
    grant_id TEXT NOT NULL,
    granted_to TEXT NOT NULL,
    decision_id TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    signed_grant TEXT NOT NULL,
    PRIMARY KEY (tenant, digest)
);

-- How often a grant with limited uses was used, counted with the decision that used it.
CREATE TABLE grant_uses (
    digest TEXT NOT NULL PRIMARY KEY,
    used INTEGER NOT NULL
) WITHOUT ROWID;

-- Revoked grants; an empty tenant stands for all tenants.
CREATE TABLE grant_revocations (
    tenant TEXT NOT NULL,
    grant_id TEXT NOT NULL,
    revoked_at TEXT NOT NULL,
    revoked_by TEXT NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (tenant, grant_id)
) WITHOUT ROWID;

-- The subjects that a key may name, one a line; `*` is any, and none means that grants do not count.
ALTER TABLE api_keys ADD COLUMN subjects TEXT NOT NULL DEFAULT '';

-- Logins to the dashboard. Only the digest of a session is stored, and it ends with its key.
CREATE TABLE sessions (
    digest TEXT NOT NULL PRIMARY KEY,
    key_id TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL
);
