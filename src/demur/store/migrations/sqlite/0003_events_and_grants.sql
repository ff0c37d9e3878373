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
