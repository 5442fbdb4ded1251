-- Up Migration

-- Into how many shards the hot money is divided, how often that was changed, and the generations that were last seen of
-- all shards but the first, from 1 on.
ALTER TABLE auth_quota.hot_store
  ADD COLUMN shards integer NOT NULL DEFAULT 1 CHECK (shards BETWEEN 1 AND 64),
  ADD COLUMN layout integer NOT NULL DEFAULT 0,
  ADD COLUMN generations text[] NOT NULL DEFAULT '{}';
