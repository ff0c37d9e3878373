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
