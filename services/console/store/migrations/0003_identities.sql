-- Up Migration

-- Whom the issuer calls by this subject is this person here. Addresses are not compared: only somebody who is signed in
-- makes a link.
CREATE TABLE console.identity (
  issuer text NOT NULL CHECK (char_length(issuer) BETWEEN 1 AND 2000),
  -- OpenID Connect Core 1.0, section 2: at most 255 ASCII characters.
  subject text NOT NULL CHECK (char_length(subject) BETWEEN 1 AND 255),
  person_id uuid NOT NULL REFERENCES console.person,
  linked_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (issuer, subject),
  UNIQUE (person_id, issuer)
);

-- A browser that is away at the issuer, until it comes back. session_id: it is to be linked to the person of this
-- session; null: it is to sign in. sealed: nonce and code verifier.
CREATE TABLE console.oidc_attempt (
  state_hash bytea PRIMARY KEY CHECK (octet_length(state_hash) = 32),
  browser_hash bytea NOT NULL CHECK (octet_length(browser_hash) = 32),
  session_id uuid REFERENCES console.session ON DELETE CASCADE,
  sealed bytea NOT NULL,
  next text NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE INDEX oidc_attempt_session ON console.oidc_attempt (session_id);
CREATE INDEX oidc_attempt_expires ON console.oidc_attempt (expires_at);

-- Where the person of the session proved who it is; null: with the password.
ALTER TABLE console.session ADD COLUMN issuer text;

-- Links with which a person sets a new password. ended_at: a later one took its place, or it is of no use any more.
CREATE TABLE console.password_reset (
  reset_id uuid PRIMARY KEY,
  token_hash bytea NOT NULL UNIQUE CHECK (octet_length(token_hash) = 32),
  person_id uuid NOT NULL REFERENCES console.person,
  made_by uuid NOT NULL REFERENCES console.person,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  used_at timestamptz,
  ended_at timestamptz
);
CREATE INDEX password_reset_person ON console.password_reset (person_id, created_at);

GRANT SELECT, INSERT (issuer, subject, person_id), DELETE ON console.identity TO console_rw;
GRANT SELECT, INSERT (state_hash, browser_hash, session_id, sealed, next, expires_at), DELETE
  ON console.oidc_attempt TO console_rw;
GRANT INSERT (issuer) ON console.session TO console_rw;
GRANT SELECT, INSERT (reset_id, token_hash, person_id, made_by, expires_at), UPDATE (used_at, ended_at)
  ON console.password_reset TO console_rw;
