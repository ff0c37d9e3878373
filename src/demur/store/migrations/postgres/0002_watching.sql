-- What watches decisions: hourly tallies, keys of the service, labels by tenant.
--
-- Tallies are counted from the records after they were stored, so storing one costs nothing
-- more; `tally_marks` says up to which record of a tenant they go. They stay when records are
-- retired: numbers by hour are nobody's personal data.
CREATE TABLE tallies (
    tenant text COLLATE "C" NOT NULL,
    hour text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    first text COLLATE "C" NOT NULL,
    second text COLLATE "C" NOT NULL,
    third text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (tenant, hour, kind, first, second, third)
);

CREATE TABLE tally_marks (
    tenant text COLLATE "C" NOT NULL PRIMARY KEY,
    seq bigint NOT NULL
);

-- A key is known by its digest; the key itself is stored nowhere.
CREATE TABLE api_keys (
    key_id text COLLATE "C" NOT NULL PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    roles text NOT NULL,
    digest text COLLATE "C" NOT NULL UNIQUE,
    created_at text COLLATE "C" NOT NULL,
    expires_at text COLLATE "C",
    revoked_at text COLLATE "C",
    note text NOT NULL
);

-- One subject's newest decisions, however many there are of it.
DROP INDEX decision_records_by_subject;
CREATE INDEX decision_records_by_subject ON decision_records (left(subject, 128), decision_id)
    WHERE subject IS NOT NULL;

CREATE INDEX labels_by_tenant ON labels (tenant, kind, created_at);
