-- Up Migration

-- Roles belong to the whole cluster: another database, a run at the same instant, or an administrator, for an owner
-- who may make no roles, may have made this one.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'console_rw') THEN
    CREATE ROLE console_rw NOLOGIN;
  END IF;
EXCEPTION
  WHEN duplicate_object OR unique_violation THEN NULL;
END
$$;

GRANT USAGE ON SCHEMA console TO console_rw;

-- Somebody who may sign in. totp_secret and totp_pending are sealed (AES-256-GCM) under a key that is not in here.
CREATE TABLE console.person (
  person_id uuid PRIMARY KEY,
  email text NOT NULL CHECK (char_length(email) BETWEEN 3 AND 254),
  password_hash text NOT NULL,
  totp_secret bytea,
  totp_pending bytea,
  -- The 30-second step of the last code that was taken: none is taken twice.
  totp_last_step bigint NOT NULL DEFAULT 0,
  is_operator boolean NOT NULL DEFAULT false,
  status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'stopped')),
  failed_sign_ins integer NOT NULL DEFAULT 0,
  locked_until timestamptz,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX person_email ON console.person (lower(email));

-- Where the failure is counted that nobody is to be charged with, so that a failed sign-in writes one row in any case.
CREATE TABLE console.decoy (
  decoy_id smallint PRIMARY KEY,
  failures bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO console.decoy (decoy_id) SELECT generate_series(0, 63);

CREATE TABLE console.recovery_code (
  person_id uuid NOT NULL REFERENCES console.person,
  code_hash bytea NOT NULL CHECK (octet_length(code_hash) = 32),
  used_at timestamptz,
  PRIMARY KEY (person_id, code_hash)
);

-- is_complete: the second factor was given, or none is set. must_rotate: the person's rights were changed by somebody
-- else, so the session gets a new token at its next request. flash: what the next page says.
CREATE TABLE console.session (
  session_id uuid PRIMARY KEY,
  token_hash bytea NOT NULL UNIQUE CHECK (octet_length(token_hash) = 32),
  person_id uuid NOT NULL REFERENCES console.person,
  is_complete boolean NOT NULL,
  must_rotate boolean NOT NULL DEFAULT false,
  flash text,
  address text NOT NULL,
  browser text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  last_seen_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX session_person ON console.session (person_id, created_at);
CREATE INDEX session_created ON console.session (created_at);

CREATE TABLE console.membership (
  person_id uuid NOT NULL REFERENCES console.person,
  account_id text NOT NULL CHECK (account_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  role text NOT NULL CHECK (role IN ('owner', 'member', 'read-only')),
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (person_id, account_id)
);
CREATE INDEX membership_account ON console.membership (account_id, created_at);

-- An operator belongs to no account.
CREATE TABLE console.invitation (
  invitation_id uuid PRIMARY KEY,
  token_hash bytea NOT NULL UNIQUE CHECK (octet_length(token_hash) = 32),
  email text NOT NULL CHECK (char_length(email) BETWEEN 3 AND 254),
  account_id text CHECK (account_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  role text NOT NULL CHECK (role IN ('owner', 'member', 'read-only', 'operator')),
  invited_by uuid NOT NULL REFERENCES console.person,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  accepted_at timestamptz,
  withdrawn_at timestamptz,
  CHECK ((role = 'operator') = (account_id IS NULL))
);
CREATE INDEX invitation_account ON console.invitation (account_id, created_at);

-- One row at most: the way in while there is no operator.
CREATE TABLE console.bootstrap_token (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  token_hash bytea NOT NULL CHECK (octet_length(token_hash) = 32),
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  used_at timestamptz
);

-- What was done, by whom, from where. What another service does is asked for first and noted as done after: the lines
-- of one operation share their operation_id.
CREATE TABLE console.audit_entry (
  audit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT now(),
  operation_id uuid NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('asked', 'done', 'failed')),
  -- No reference: a line must stay true whatever becomes of the person.
  person_id uuid,
  email text NOT NULL,
  address text NOT NULL,
  action text NOT NULL,
  account_id text,
  target text NOT NULL,
  before jsonb,
  after jsonb
);
CREATE INDEX audit_entry_account ON console.audit_entry (account_id, audit_id);
CREATE INDEX audit_entry_email ON console.audit_entry (email, audit_id);
CREATE INDEX audit_entry_action ON console.audit_entry (action, audit_id);

CREATE FUNCTION console.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'the audit log is append-only: % refused', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON console.audit_entry
  FOR EACH STATEMENT EXECUTE FUNCTION console.refuse_change();

-- By column, so that not even the service can date a line itself, move an invitation to another account, give somebody
-- another address to sign in with, or make a session last longer.
GRANT SELECT, INSERT (person_id, email, password_hash, is_operator) ON console.person TO console_rw;
GRANT UPDATE (password_hash, totp_secret, totp_pending, totp_last_step, is_operator, status, failed_sign_ins,
  locked_until) ON console.person TO console_rw;
GRANT SELECT, UPDATE (failures) ON console.decoy TO console_rw;
GRANT SELECT, INSERT (person_id, code_hash), UPDATE (used_at), DELETE ON console.recovery_code TO console_rw;
GRANT SELECT, INSERT (session_id, token_hash, person_id, is_complete, flash, address, browser), DELETE
  ON console.session TO console_rw;
GRANT UPDATE (token_hash, must_rotate, flash, last_seen_at) ON console.session TO console_rw;
GRANT SELECT, INSERT (person_id, account_id, role), UPDATE (role), DELETE ON console.membership TO console_rw;
GRANT SELECT, INSERT (invitation_id, token_hash, email, account_id, role, invited_by, expires_at)
  ON console.invitation TO console_rw;
GRANT UPDATE (accepted_at, withdrawn_at) ON console.invitation TO console_rw;
GRANT SELECT, INSERT (token_hash, expires_at), UPDATE (token_hash, created_at, expires_at, used_at)
  ON console.bootstrap_token TO console_rw;
GRANT SELECT,
  INSERT (operation_id, outcome, person_id, email, address, action, account_id, target, before, after)
  ON console.audit_entry TO console_rw;
