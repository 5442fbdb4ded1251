-- Up Migration

-- Whoever came by an issuer alone has a hash of random bytes in place of one: nobody knows the password of it.
ALTER TABLE console.person ADD COLUMN has_password boolean NOT NULL DEFAULT true;
GRANT INSERT (has_password), UPDATE (has_password) ON console.person TO console_rw;

-- A domain whose people an account takes in when an issuer says that their address is in it. token: what the account
-- publishes in DNS, which is no secret. verified_at: when it was first found there; null: not yet, or no longer.
-- found_at, checked_at: when it was last found and last looked for. claimed_by: the owner by whom the rule stands.
CREATE TABLE console.domain (
  account_id text NOT NULL CHECK (account_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  domain text NOT NULL CHECK (domain ~ '^[a-z0-9.-]{3,230}$'),
  token text NOT NULL,
  role text NOT NULL CHECK (role IN ('developer', 'billing', 'viewer')),
  claimed_by uuid NOT NULL REFERENCES console.person,
  created_at timestamptz NOT NULL DEFAULT now(),
  checked_at timestamptz NOT NULL DEFAULT now(),
  found_at timestamptz,
  verified_at timestamptz CHECK (verified_at IS NULL OR found_at IS NOT NULL),
  PRIMARY KEY (account_id, domain)
);
-- Any account may claim one; one account at a time has it.
CREATE UNIQUE INDEX domain_verified ON console.domain (domain) WHERE verified_at IS NOT NULL;
CREATE INDEX domain_found ON console.domain (found_at) WHERE verified_at IS NOT NULL;

GRANT SELECT, INSERT (account_id, domain, token, role, claimed_by), DELETE,
  UPDATE (role, claimed_by, checked_at, found_at, verified_at) ON console.domain TO console_rw;
