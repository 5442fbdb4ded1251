-- Up Migration

-- Accounts whose hot money is, or goes, elsewhere than the hash of their id says: in which shard each is, to which it
-- moves (NULL: it does not), and the number of its last move, which grows whatever is restored.
CREATE TABLE auth_quota.account_shard (
  account_id text PRIMARY KEY,
  shard integer NOT NULL CHECK (shard BETWEEN 0 AND 63),
  moving_to integer CHECK (moving_to BETWEEN 0 AND 63),
  number bigint NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, UPDATE, DELETE ON auth_quota.account_shard TO auth_quota_rw;
