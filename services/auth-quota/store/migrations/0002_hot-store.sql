-- Up Migration

-- One row: what is known of the hot store from outside of it.
CREATE TABLE auth_quota.hot_store (
  is_only boolean PRIMARY KEY CHECK (is_only),
  generation text NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, UPDATE ON auth_quota.hot_store TO auth_quota_rw;

-- An installation from before this table had a hot store too, if it had accounts.
INSERT INTO auth_quota.hot_store (is_only, generation)
SELECT true, 'unknown' WHERE EXISTS (SELECT FROM auth_quota.account);
