-- Up Migration

-- A card that may be charged without its owner, as the provider names it; the number is with the provider alone.
CREATE TABLE console.saved_card (
  account_id text PRIMARY KEY CHECK (account_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  provider text NOT NULL,
  customer text NOT NULL,
  method text NOT NULL,
  label text NOT NULL,
  saved_by uuid NOT NULL REFERENCES console.person,
  saved_at timestamptz NOT NULL DEFAULT now()
);

-- When the saved card of an account is charged, how much, and how much in a calendar month (UTC) at most. off_reason:
-- why it was switched off by itself. checked_at: when a replica last compared.
CREATE TABLE console.auto_top_up (
  account_id text PRIMARY KEY CHECK (account_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  is_on boolean NOT NULL,
  threshold_nanos bigint NOT NULL CHECK (threshold_nanos > 0),
  amount_nanos bigint NOT NULL CHECK (amount_nanos > 0),
  monthly_cap_nanos bigint NOT NULL CHECK (monthly_cap_nanos >= amount_nanos),
  off_reason text NOT NULL DEFAULT '',
  set_by uuid NOT NULL REFERENCES console.person,
  checked_at timestamptz NOT NULL DEFAULT '-infinity'
);
CREATE INDEX auto_top_up_checked ON console.auto_top_up (checked_at) WHERE is_on;

-- saves_card: what is paid with may be charged later. customer and method: the saved card that is charged, which the
-- provider must be told again in the same words. problem: why nothing came of it, for people.
ALTER TABLE console.top_up
  ADD COLUMN saves_card boolean NOT NULL DEFAULT false,
  ADD COLUMN is_automatic boolean NOT NULL DEFAULT false,
  ADD COLUMN customer text,
  ADD COLUMN method text,
  ADD COLUMN problem text NOT NULL DEFAULT '',
  ADD CONSTRAINT top_up_card CHECK (is_automatic = (customer IS NOT NULL AND method IS NOT NULL));
-- However many replicas there are: one charge at a time.
CREATE UNIQUE INDEX top_up_undecided ON console.top_up (account_id)
  WHERE is_automatic AND state IN ('begun', 'unbooked');

GRANT INSERT (saves_card, is_automatic, customer, method), UPDATE (problem) ON console.top_up TO console_rw;
GRANT SELECT, DELETE, INSERT, UPDATE (provider, customer, method, label, saved_by, saved_at)
  ON console.saved_card TO console_rw;
GRANT SELECT, INSERT, UPDATE (is_on, threshold_nanos, amount_nanos, monthly_cap_nanos, off_reason, set_by, checked_at)
  ON console.auto_top_up TO console_rw;
