-- Up Migration

-- Calls under way. 0: of an account the service's default, of a key as many as its account may have.
ALTER TABLE auth_quota.account
  ADD COLUMN max_concurrent integer NOT NULL DEFAULT 0 CHECK (max_concurrent BETWEEN 0 AND 100000);
ALTER TABLE auth_quota.key
  ADD COLUMN max_concurrent integer NOT NULL DEFAULT 0 CHECK (max_concurrent BETWEEN 0 AND 100000);
GRANT UPDATE (max_concurrent) ON auth_quota.account, auth_quota.key TO auth_quota_rw;
