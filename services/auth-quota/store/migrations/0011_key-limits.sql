-- Up Migration

-- Calls per minute of a key, 0: as many as its account may begin; and the addresses and networks (CIDR) from which it
-- works, none: all.
ALTER TABLE auth_quota.key
  ADD COLUMN requests_per_minute integer NOT NULL DEFAULT 0 CHECK (requests_per_minute BETWEEN 0 AND 1000000),
  ADD COLUMN addresses text[] NOT NULL DEFAULT '{}';
GRANT UPDATE (requests_per_minute, addresses) ON auth_quota.key TO auth_quota_rw;
