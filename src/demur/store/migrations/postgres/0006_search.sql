-- What the search finds records by: the words of ids, subject, action, reasons, outcome and of the
-- excerpt, if there is one. They are added after a record was stored, so storing one costs nothing
-- more; `search_marks` says up to which record of a tenant they go. Erasing a record takes out the
-- words of its sealed part, retiring it takes out all.
CREATE TABLE search_entries (
    entry_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    decision_id text NOT NULL UNIQUE,
    words text NOT NULL
);
CREATE INDEX search_entries_by_word ON search_entries
    USING gin (array_to_tsvector(string_to_array(words, ' ')));

CREATE TABLE search_marks (
    tenant text NOT NULL PRIMARY KEY,
    seq bigint NOT NULL
);
