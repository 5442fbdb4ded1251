-- Up Migration

-- One row: whether the operators have closed the API. changed_at: since when that is so; null: nobody has ever closed it.
CREATE TABLE auth_quota.maintenance (
  is_only boolean PRIMARY KEY CHECK (is_only),
  is_maintenance boolean NOT NULL,
  changed_at timestamptz
);
INSERT INTO auth_quota.maintenance (is_only, is_maintenance) VALUES (true, false);
GRANT SELECT, UPDATE (is_maintenance, changed_at) ON auth_quota.maintenance TO auth_quota_rw;

-- Compared by bytes, so that the index serves searches by the first characters.
CREATE INDEX key_secret_prefix ON auth_quota.key (secret_prefix COLLATE "C");
