-- People who log in to the dashboard. An empty tenant stands for all tenants; `groups` are separated
-- by spaces. Of a password only a slow hash is stored; people of an identity provider have none.
-- `generation` grows when a person is disabled, changes role or password: sessions of an earlier
-- generation no longer count.
CREATE TABLE people (
    login TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    role TEXT NOT NULL,
    groups TEXT NOT NULL,
    password_hash TEXT,
    issuer TEXT,
    oidc_subject TEXT,
    created_at TEXT NOT NULL,
    disabled_at TEXT,
    note TEXT NOT NULL,
    generation INTEGER NOT NULL
);
CREATE UNIQUE INDEX people_by_subject ON people (issuer, oidc_subject)
    WHERE oidc_subject IS NOT NULL;

-- Keys with which the service signs what a person approves. The secret is encrypted by the service
-- key, which is not in the store; the certificate is the signature of `issuer` over the public key.
CREATE TABLE person_keys (
    key_id TEXT NOT NULL PRIMARY KEY,
    login TEXT NOT NULL,
    tenant TEXT NOT NULL,
    algorithm TEXT NOT NULL,
    public_key TEXT NOT NULL,
    sealed_secret TEXT NOT NULL,
    issuer TEXT NOT NULL,
    certificate TEXT NOT NULL,
    created_at TEXT NOT NULL,
    retired_at TEXT
);
CREATE INDEX person_keys_by_login ON person_keys (login);

-- The person who logged in, and their generation then; empty for a login with a key.
ALTER TABLE sessions ADD COLUMN person TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
