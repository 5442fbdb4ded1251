-- Up Migration

-- Roles belong to the whole cluster: another database, a run at the same instant, or an administrator, for an owner
-- who may make no roles, may have made this one.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'auth_quota_rw') THEN
    CREATE ROLE auth_quota_rw NOLOGIN;
  END IF;
EXCEPTION
  WHEN duplicate_object OR unique_violation THEN NULL;
END
$$;

GRANT USAGE ON SCHEMA auth_quota TO auth_quota_rw;

-- version grows with every change; pushed_version is the newest one that Redis has certainly taken.
CREATE TABLE auth_quota.account (
  account_id text PRIMARY KEY CHECK (account_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 200),
  status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended')),
  requests_per_minute integer NOT NULL DEFAULT 0 CHECK (requests_per_minute BETWEEN 0 AND 1000000),
  version bigint NOT NULL DEFAULT 1,
  pushed_version bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE auth_quota.key (
  key_id text PRIMARY KEY CHECK (key_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  account_id text NOT NULL REFERENCES auth_quota.account,
  key_hash bytea NOT NULL UNIQUE CHECK (octet_length(key_hash) = 32),
  secret_prefix text NOT NULL,
  name text NOT NULL CHECK (char_length(name) <= 200),
  status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'stopped', 'deleted')),
  expires_at timestamptz,
  limit_nanos bigint CHECK (limit_nanos BETWEEN 0 AND 9007199254740991),
  models text[] NOT NULL DEFAULT '{}',
  version bigint NOT NULL DEFAULT 1,
  pushed_version bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX key_of_account ON auth_quota.key (account_id, created_at DESC, key_id DESC);
CREATE INDEX account_unpushed ON auth_quota.account (account_id) WHERE version > pushed_version;
CREATE INDEX key_unpushed ON auth_quota.key (key_id) WHERE version > pushed_version;
CREATE INDEX account_updated ON auth_quota.account (updated_at);
CREATE INDEX key_updated ON auth_quota.key (updated_at);

-- No DELETE: records stay for the ledger. What a key is (its hash and account) never changes, which is why services
-- may keep it in memory without ever asking again.
GRANT SELECT, INSERT ON auth_quota.account, auth_quota.key TO auth_quota_rw;
GRANT UPDATE (name, status, requests_per_minute, version, pushed_version, updated_at)
  ON auth_quota.account TO auth_quota_rw;
GRANT UPDATE (name, status, expires_at, limit_nanos, models, version, pushed_version, updated_at)
  ON auth_quota.key TO auth_quota_rw;
