-- Event links: what was done to a chain (retired, erased), in the chain itself. An event has a place
-- (`seq`) among the records of its tenant, and is no decision. `event` is canonical JSON, which the
-- hash covers; the other columns repeat its fields for queries.
CREATE TABLE chain_events (
    tenant text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    by text NOT NULL,
    reason text NOT NULL,
    event json NOT NULL,
    previous_hash text NOT NULL,
    event_hash text NOT NULL,
    PRIMARY KEY (tenant, seq)
);

CREATE TRIGGER chain_events_are_not_changed
BEFORE UPDATE OR DELETE ON chain_events
FOR EACH ROW EXECUTE FUNCTION demur_refuse('chain events are append-only');

CREATE TRIGGER chain_events_are_not_truncated
BEFORE TRUNCATE ON chain_events
FOR EACH STATEMENT EXECUTE FUNCTION demur_refuse('chain events are append-only');

-- Signed grants that came with decisions. Records hold only a digest, because a signature would let
-- every reader use the grant; this table is for later attempts of a request, and for admins.
CREATE TABLE grants (
    tenant text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    grant_id text COLLATE "C" NOT NULL,
    granted_to text COLLATE "C" NOT NULL,
    decision_id text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    expires_at text COLLATE "C" NOT NULL,
    signed_grant text NOT NULL,
    PRIMARY KEY (tenant, digest)
);

-- How often a grant with limited uses was used, counted with the decision that used it.
CREATE TABLE grant_uses (
    digest text COLLATE "C" NOT NULL PRIMARY KEY,
    used bigint NOT NULL
);

-- Revoked grants; an empty tenant stands for all tenants.
CREATE TABLE grant_revocations (
    tenant text COLLATE "C" NOT NULL,
    grant_id text COLLATE "C" NOT NULL,
    revoked_at text COLLATE "C" NOT NULL,
    revoked_by text NOT NULL,
    note text NOT NULL,
    PRIMARY KEY (tenant, grant_id)
);

-- The subjects that a key may name, one a line; `*` is any, and none means that grants do not count.
ALTER TABLE api_keys ADD COLUMN subjects text NOT NULL DEFAULT '';

-- Logins to the dashboard. Only the digest of a session is stored, and it ends with its key.
CREATE TABLE sessions (
    digest text COLLATE "C" NOT NULL PRIMARY KEY,
    key_id text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    expires_at text COLLATE "C" NOT NULL
);
