-- People who log in to the dashboard. An empty tenant stands for all tenants; `groups` are separated
-- by spaces. Of a password only a slow hash is stored; people of an identity provider have none.
-- `generation` grows when a person is disabled, changes role or password: sessions of an earlier
-- generation no longer count.
CREATE TABLE people (
    login text COLLATE "C" NOT NULL PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    role text NOT NULL,
    groups text NOT NULL,
    password_hash text,
    issuer text COLLATE "C",
    oidc_subject text COLLATE "C",
    created_at text COLLATE "C" NOT NULL,
    disabled_at text COLLATE "C",
    note text NOT NULL,
    generation bigint NOT NULL
);
CREATE UNIQUE INDEX people_by_subject ON people (issuer, oidc_subject)
    WHERE oidc_subject IS NOT NULL;

-- Keys with which the service signs what a person approves. The secret is encrypted by the service
-- key, which is not in the store; the certificate is the signature of `issuer` over the public key.
CREATE TABLE person_keys (
    key_id text COLLATE "C" NOT NULL PRIMARY KEY,
    login text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    algorithm text NOT NULL,
    public_key text NOT NULL,
    sealed_secret text NOT NULL,
    issuer text COLLATE "C" NOT NULL,
    certificate text NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    retired_at text COLLATE "C"
);
CREATE INDEX person_keys_by_login ON person_keys (login);

-- The person who logged in, and their generation then; empty for a login with a key.
ALTER TABLE sessions ADD COLUMN person text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN generation bigint NOT NULL DEFAULT 0;
