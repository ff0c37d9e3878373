-- What waits for a person: one row for each refused decision that people can lift. A row begins in
-- the transaction of its record, and its state changes once, from `waiting`. `kinds` are the kinds of
-- grants that lift it, `reason_codes` a JSON list. `notified` names the last notice that was sent.
CREATE TABLE approvals (
    decision_id text COLLATE "C" NOT NULL PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    action_type text COLLATE "C" NOT NULL,
    reason_codes text COLLATE "C" NOT NULL,
    kinds text COLLATE "C" NOT NULL,
    needed integer NOT NULL,
    requested_at text COLLATE "C" NOT NULL,
    expires_at text COLLATE "C" NOT NULL,
    group_name text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    closed_at text COLLATE "C",
    closed_by text COLLATE "C" NOT NULL,
    note text COLLATE "C" NOT NULL,
    resolution_id text COLLATE "C",
    notified text COLLATE "C" NOT NULL
);

CREATE INDEX approvals_by_tenant ON approvals (tenant, state, decision_id);
CREATE INDEX approvals_by_state ON approvals (state, decision_id);
CREATE INDEX approvals_by_end ON approvals (closed_at);

-- One vote of each person. `limits` is a JSON object, `grant_digests` are those of the signed grants,
-- separated by spaces.
CREATE TABLE approval_votes (
    decision_id text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    person text COLLATE "C" NOT NULL,
    vote text COLLATE "C" NOT NULL,
    note text COLLATE "C" NOT NULL,
    limits text COLLATE "C" NOT NULL,
    grant_digests text COLLATE "C" NOT NULL,
    voted_at text COLLATE "C" NOT NULL,
    PRIMARY KEY (decision_id, person)
);
