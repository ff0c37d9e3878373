-- Decision records, one row each. `record` is the open part as canonical JSON; the other
-- columns repeat what people query. `sealed` is the personal part; NULL once it was erased.
--
-- `created_at` is ISO 8601 in UTC with milliseconds and `Z`, so text order is time order.
-- Right:  created_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-7 days')
-- Right:  julianday(created_at) > julianday('now', '-7 days'), and date(created_at) = '2027-01-31'
-- Nearly: created_at > datetime('now', '-7 days') also counts the whole day it falls on,
--         because SQLite writes a space where ISO 8601 writes `T`.
CREATE TABLE decision_records (
    decision_id TEXT NOT NULL PRIMARY KEY,
    created_at TEXT NOT NULL,
    tenant TEXT NOT NULL,
    request_id TEXT,
    root_id TEXT,
    subject TEXT,
    verdict TEXT NOT NULL,
    decision_output TEXT NOT NULL,
    refusal_class TEXT,
    action_type TEXT NOT NULL,
    amount_value REAL,
    amount_currency TEXT,
    reason_codes TEXT NOT NULL,
    policy_digest TEXT NOT NULL,
    registry_digest TEXT NOT NULL,
    confirmed INTEGER NOT NULL DEFAULT 1,
    seq INTEGER NOT NULL,
    previous_hash TEXT NOT NULL,
    record_hash TEXT NOT NULL,
    record TEXT NOT NULL,
    sealed TEXT
);

-- Every index is paid for by every decision; these are all there are.
CREATE UNIQUE INDEX decision_records_by_seq ON decision_records (tenant, seq);
CREATE UNIQUE INDEX decision_records_by_request ON decision_records (tenant, request_id)
    WHERE request_id IS NOT NULL;
CREATE INDEX decision_records_by_time ON decision_records (tenant, created_at, decision_id);
CREATE INDEX decision_records_by_root ON decision_records (root_id) WHERE root_id IS NOT NULL;
CREATE INDEX decision_records_by_subject ON decision_records (subject) WHERE subject IS NOT NULL;

-- One row per decision and code: `... WHERE reason_code = 'CHARGEBACK_RISK_BLOCK'`.
CREATE VIEW decision_reasons AS
SELECT
    decision_id, created_at, tenant, request_id, root_id, subject, verdict, decision_output,
    refusal_class, action_type, amount_value, amount_currency, policy_digest, registry_digest,
    confirmed, seq, code.value AS reason_code
FROM decision_records, json_each(decision_records.reason_codes) AS code;

CREATE TABLE chain_heads (
    tenant TEXT NOT NULL PRIMARY KEY,
    seq INTEGER NOT NULL,
    record_hash TEXT NOT NULL
) WITHOUT ROWID;

-- The link that the oldest kept record of a tenant follows, once older ones were retired.
CREATE TABLE chain_anchors (
    tenant TEXT NOT NULL PRIMARY KEY,
    seq INTEGER NOT NULL,
    record_hash TEXT NOT NULL,
    retired_before TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE checkpoints (
    tenant TEXT NOT NULL,
    seq INTEGER NOT NULL,
    record_hash TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (tenant, seq, created_at, record_hash)
) WITHOUT ROWID;

CREATE TABLE snapshots (
    digest TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    text TEXT NOT NULL
);

CREATE TABLE experiences (
    memory_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    decision_id TEXT NOT NULL,
    outcome TEXT NOT NULL,
    severity INTEGER NOT NULL,
    note TEXT NOT NULL,
    action_type TEXT NOT NULL,
    projection TEXT NOT NULL,
    vector BLOB NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    PRIMARY KEY (tenant, memory_id)
);
CREATE INDEX experiences_by_decision ON experiences (decision_id);

-- A number per tenant that moves whenever its experiences change.
CREATE TABLE memory_versions (
    tenant TEXT NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE labels (
    label_id INTEGER PRIMARY KEY,
    decision_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    created_at TEXT NOT NULL,
    kind TEXT NOT NULL,
    value TEXT NOT NULL,
    note TEXT NOT NULL,
    by TEXT NOT NULL
);
CREATE INDEX labels_by_decision ON labels (decision_id);

-- Holds `retiring` while the store itself deletes what its operator let go, never longer.
CREATE TABLE meta (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- Records are append-only. These guards stop accidents; the hash chain finds intent.
CREATE TRIGGER decision_records_are_not_changed
BEFORE UPDATE OF
    decision_id, created_at, tenant, request_id, root_id, verdict, decision_output, refusal_class,
    action_type, amount_value, amount_currency, reason_codes, policy_digest, registry_digest,
    seq, previous_hash, record_hash, record
ON decision_records
BEGIN
    SELECT RAISE(ABORT, 'decision records are append-only');
END;

CREATE TRIGGER decision_records_are_only_erased
BEFORE UPDATE OF sealed, subject ON decision_records
WHEN NEW.sealed IS NOT NULL OR NEW.subject IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'the sealed part of a decision record can only be erased');
END;

CREATE TRIGGER decision_records_are_not_confirmed_later
BEFORE UPDATE OF confirmed ON decision_records
WHEN NEW.confirmed IS NOT 0
BEGIN
    SELECT RAISE(ABORT, 'a decision record can only lose its confirmation');
END;

CREATE TRIGGER decision_records_are_not_deleted
BEFORE DELETE ON decision_records
WHEN NOT EXISTS (SELECT 1 FROM meta WHERE key = 'retiring')
BEGIN
    SELECT RAISE(ABORT, 'decision records are retired by the store, not deleted');
END;
