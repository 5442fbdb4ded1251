-- Up Migration

-- The key with which the playground asks for a person in an account; the secret is sealed and nobody is shown it.
-- expires_at: of the key, which is not put off any more once nobody uses it.
CREATE TABLE console.playground_key (
  account_id text NOT NULL CHECK (account_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  person_id uuid NOT NULL REFERENCES console.person,
  key_id text NOT NULL,
  sealed_secret bytea NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (account_id, person_id)
);
GRANT SELECT, INSERT, DELETE, UPDATE (key_id, sealed_secret, expires_at) ON console.playground_key TO console_rw;
