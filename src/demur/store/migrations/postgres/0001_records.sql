-- Decision records, one row each. `record` is the open part as canonical JSON; the other
-- columns repeat what people query. `sealed` is the personal part; NULL once it was erased.
--
-- Both are `json`, which keeps the bytes that the chain covers; `jsonb` would rewrite them.
-- Ids and names compare byte by byte (COLLATE "C"), so every server sorts them alike.
CREATE TABLE decision_records (
    decision_id text COLLATE "C" NOT NULL PRIMARY KEY,
    created_at timestamptz NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    request_id text COLLATE "C",
    root_id text COLLATE "C",
    subject text COLLATE "C",
    verdict text NOT NULL,
    decision_output text NOT NULL,
    refusal_class text,
    action_type text NOT NULL,
    amount_value double precision,
    amount_currency text,
    reason_codes text[] NOT NULL,
    policy_digest text NOT NULL,
    registry_digest text NOT NULL,
    confirmed boolean NOT NULL DEFAULT true,
    seq bigint NOT NULL,
    previous_hash text NOT NULL,
    record_hash text NOT NULL,
    record json NOT NULL,
    sealed json
);

-- Every index is paid for by every decision; these are all there are.
CREATE UNIQUE INDEX decision_records_by_seq ON decision_records (tenant, seq);
CREATE UNIQUE INDEX decision_records_by_request ON decision_records (tenant, request_id)
    WHERE request_id IS NOT NULL;
CREATE INDEX decision_records_by_time ON decision_records (tenant, created_at, decision_id);
CREATE INDEX decision_records_by_root ON decision_records (root_id) WHERE root_id IS NOT NULL;
-- The beginning of a subject, because an index cannot hold the longest ones.
CREATE INDEX decision_records_by_subject ON decision_records (left(subject, 128))
    WHERE subject IS NOT NULL;
-- For periods over all tenants: one summary for many pages, next to nothing to keep.
CREATE INDEX decision_records_by_period ON decision_records USING brin (created_at);

-- One row per decision and code: `... WHERE reason_code = 'CHARGEBACK_RISK_BLOCK'`.
CREATE VIEW decision_reasons AS
SELECT
    decision_id, created_at, tenant, request_id, root_id, subject, verdict, decision_output,
    refusal_class, action_type, amount_value, amount_currency, policy_digest, registry_digest,
    confirmed, seq, reason_code
FROM decision_records, unnest(reason_codes) AS code (reason_code);

-- Every batch moves a head; room on its page keeps that cheap.
CREATE TABLE chain_heads (
    tenant text COLLATE "C" NOT NULL PRIMARY KEY,
    seq bigint NOT NULL,
    record_hash text NOT NULL
) WITH (fillfactor = 50);

-- The link that the oldest kept record of a tenant follows, once older ones were retired.
CREATE TABLE chain_anchors (
    tenant text COLLATE "C" NOT NULL PRIMARY KEY,
    seq bigint NOT NULL,
    record_hash text NOT NULL,
    retired_before text NOT NULL
);

CREATE TABLE checkpoints (
    tenant text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    record_hash text NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, seq, created_at, record_hash)
);

CREATE TABLE snapshots (
    digest text COLLATE "C" NOT NULL PRIMARY KEY,
    kind text NOT NULL,
    text text NOT NULL
);

CREATE TABLE experiences (
    memory_id text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    decision_id text COLLATE "C" NOT NULL,
    outcome text NOT NULL,
    severity integer NOT NULL,
    note text NOT NULL,
    action_type text NOT NULL,
    projection text NOT NULL,
    vector bytea NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    expires_at text COLLATE "C",
    PRIMARY KEY (tenant, memory_id)
);
CREATE INDEX experiences_by_decision ON experiences (decision_id);

-- A number per tenant that moves whenever its experiences change.
CREATE TABLE memory_versions (
    tenant text COLLATE "C" NOT NULL PRIMARY KEY,
    version bigint NOT NULL
);

CREATE TABLE labels (
    label_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    decision_id text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    value text NOT NULL,
    note text NOT NULL,
    by text NOT NULL
);
CREATE INDEX labels_by_decision ON labels (decision_id);

-- Records are append-only. These guards stop accidents; the hash chain finds intent.
CREATE FUNCTION demur_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER decision_records_are_not_changed
BEFORE UPDATE OF
    decision_id, created_at, tenant, request_id, root_id, verdict, decision_output, refusal_class,
    action_type, amount_value, amount_currency, reason_codes, policy_digest, registry_digest,
    seq, previous_hash, record_hash, record
ON decision_records
FOR EACH ROW EXECUTE FUNCTION demur_refuse('decision records are append-only');

CREATE TRIGGER decision_records_are_only_erased
BEFORE UPDATE OF sealed, subject ON decision_records
FOR EACH ROW WHEN (NEW.sealed IS NOT NULL OR NEW.subject IS NOT NULL)
EXECUTE FUNCTION demur_refuse('the sealed part of a decision record can only be erased');

CREATE TRIGGER decision_records_are_not_confirmed_later
BEFORE UPDATE OF confirmed ON decision_records
FOR EACH ROW WHEN (NEW.confirmed)
EXECUTE FUNCTION demur_refuse('a decision record can only lose its confirmation');

-- The store sets `demur.retiring` while it deletes what its operator let go, never longer.
CREATE TRIGGER decision_records_are_not_deleted
BEFORE DELETE ON decision_records
FOR EACH STATEMENT WHEN (current_setting('demur.retiring', true) IS DISTINCT FROM 'on')
EXECUTE FUNCTION demur_refuse('decision records are retired by the store, not deleted');

CREATE TRIGGER decision_records_are_not_truncated
BEFORE TRUNCATE ON decision_records
FOR EACH STATEMENT
EXECUTE FUNCTION demur_refuse('decision records are retired by the store, not deleted');
