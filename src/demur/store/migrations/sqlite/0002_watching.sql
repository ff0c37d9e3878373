-- What watches decisions: hourly tallies, keys of the service, labels by tenant.
--
-- Tallies are counted from the records after they were stored, so storing one costs nothing
-- more; `tally_marks` says up to which record of a tenant they go. They stay when records are
-- retired: numbers by hour are nobody's personal data.
CREATE TABLE tallies (
    tenant TEXT NOT NULL,
    hour TEXT NOT NULL,
    kind TEXT NOT NULL,
    first TEXT NOT NULL,
    second TEXT NOT NULL,
    third TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (tenant, hour, kind, first, second, third)
) WITHOUT ROWID;

CREATE TABLE tally_marks (
    tenant TEXT NOT NULL PRIMARY KEY,
    seq INTEGER NOT NULL
) WITHOUT ROWID;

-- A key is known by its digest; the key itself is stored nowhere.
CREATE TABLE api_keys (
    key_id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    roles TEXT NOT NULL,
    digest TEXT NOT NULL UNIQUE,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    revoked_at TEXT,
    note TEXT NOT NULL
) WITHOUT ROWID;

-- One subject's newest decisions, however many there are of it.
DROP INDEX decision_records_by_subject;
CREATE INDEX decision_records_by_subject ON decision_records (subject, decision_id)
    WHERE subject IS NOT NULL;

CREATE INDEX labels_by_tenant ON labels (tenant, kind, created_at);
