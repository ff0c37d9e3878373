-- What waits for a person: one row for each refused decision that people can lift. A row begins in
-- the transaction of its record, and its state changes once, from `waiting`. `kinds` are the kinds of
-- grants that lift it, `reason_codes` a JSON list. `notified` names the last notice that was sent.
CREATE TABLE approvals (
    decision_id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    action_type TEXT NOT NULL,
    reason_codes TEXT NOT NULL,
    kinds TEXT NOT NULL,
    needed INTEGER NOT NULL,
    requested_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    group_name TEXT NOT NULL,
    state TEXT NOT NULL,
    closed_at TEXT,
    closed_by TEXT NOT NULL,
    note TEXT NOT NULL,
    resolution_id TEXT,
    notified TEXT NOT NULL
) WITHOUT ROWID;

CREATE INDEX approvals_by_tenant ON approvals (tenant, state, decision_id);
CREATE INDEX approvals_by_state ON approvals (state, decision_id);
CREATE INDEX approvals_by_end ON approvals (closed_at);

-- One vote of each person. `limits` is a JSON object, `grant_digests` are those of the signed grants,
-- separated by spaces.
CREATE TABLE approval_votes (
    decision_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    person TEXT NOT NULL,
    vote TEXT NOT NULL,
    note TEXT NOT NULL,
    limits TEXT NOT NULL,
    grant_digests TEXT NOT NULL,
    voted_at TEXT NOT NULL,
    PRIMARY KEY (decision_id, person)
) WITHOUT ROWID;
