-- What the search finds records by: the words of ids, subject, action, reasons, outcome and of the
-- excerpt, if there is one. They are added after a record was stored, so storing one costs nothing
-- more; `search_marks` says up to which record of a tenant they go. Erasing a record takes out the
-- words of its sealed part, retiring it takes out all.
--
-- The full-text index over it is no part of the schema: demur creates `search_index` where this
-- SQLite has FTS5, and reads `words` where it has not.
CREATE TABLE search_entries (
    entry_id INTEGER PRIMARY KEY,
    decision_id TEXT NOT NULL UNIQUE,
    words TEXT NOT NULL
);

CREATE TABLE search_marks (
    tenant TEXT NOT NULL PRIMARY KEY,
    seq INTEGER NOT NULL
) WITHOUT ROWID;
