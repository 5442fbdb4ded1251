-- Up Migration

-- What its owner sorts a key by, such as team=search; at most ten.
ALTER TABLE auth_quota.key ADD COLUMN tags text[] NOT NULL DEFAULT '{}';
GRANT UPDATE (tags) ON auth_quota.key TO auth_quota_rw;
