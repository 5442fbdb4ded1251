-- Up Migration

-- What an account wants to be told of: its balance falling below an amount, and keys that have spent so many percent of
-- their limits. checked_at: when a replica last compared.
CREATE TABLE console.alert_rule (
  account_id text PRIMARY KEY CHECK (account_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  low_balance_nanos bigint CHECK (low_balance_nanos > 0),
  limit_percent integer CHECK (limit_percent BETWEEN 1 AND 100),
  is_mailed boolean NOT NULL,
  checked_at timestamptz NOT NULL DEFAULT '-infinity'
);
CREATE INDEX alert_rule_checked ON console.alert_rule (checked_at);

-- What is on the wrong side now and was told of: the balance (subject ''), or a key. A row goes when its subject is back,
-- and the next crossing is told again.
CREATE TABLE console.alert_crossing (
  account_id text NOT NULL,
  subject text NOT NULL,
  crossed_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (account_id, subject)
);

-- sealed_secret: what its messages are signed with.
CREATE TABLE console.webhook (
  webhook_id uuid PRIMARY KEY,
  account_id text NOT NULL CHECK (account_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  url text NOT NULL CHECK (char_length(url) BETWEEN 1 AND 500),
  sealed_secret bytea NOT NULL,
  created_by uuid NOT NULL REFERENCES console.person,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX webhook_account ON console.webhook (account_id, created_at);

-- A message to one recipient, until it is delivered or given up. event_id is the same for all recipients of an event.
-- webhook_id null: by mail.
CREATE TABLE console.delivery (
  delivery_id uuid PRIMARY KEY,
  event_id uuid NOT NULL,
  account_id text NOT NULL,
  event_type text NOT NULL,
  body text NOT NULL,
  webhook_id uuid REFERENCES console.webhook ON DELETE CASCADE,
  recipient text NOT NULL,
  state text NOT NULL DEFAULT 'due' CHECK (state IN ('due', 'delivered', 'failed')),
  attempts integer NOT NULL DEFAULT 0,
  due_at timestamptz NOT NULL DEFAULT now(),
  result text NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX delivery_due ON console.delivery (due_at) WHERE state = 'due';
CREATE INDEX delivery_account ON console.delivery (account_id, created_at DESC);
CREATE INDEX delivery_created ON console.delivery (created_at);
CREATE INDEX delivery_webhook ON console.delivery (webhook_id);

GRANT SELECT, INSERT, UPDATE (low_balance_nanos, limit_percent, is_mailed, checked_at)
  ON console.alert_rule TO console_rw;
GRANT SELECT, INSERT, DELETE ON console.alert_crossing, console.webhook TO console_rw;
GRANT SELECT, INSERT, DELETE, UPDATE (state, attempts, due_at, result) ON console.delivery TO console_rw;
