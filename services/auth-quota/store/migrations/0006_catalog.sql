-- Up Migration

-- Catalogs that relays have taken, the newest last: what a relay begins with whose own file cannot be used.
CREATE TABLE auth_quota.catalog (
  catalog_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  hash text NOT NULL,
  content text NOT NULL,
  proof bytea NOT NULL,
  taken_by text NOT NULL,
  taken_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, DELETE ON auth_quota.catalog TO auth_quota_rw;
