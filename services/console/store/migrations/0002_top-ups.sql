-- Up Migration

-- A payment that somebody began with a payment provider. begun: not heard of yet, or not paid yet; paid: billing has
-- booked it; expired: nothing will come of it; unbooked: money came in that does not match, or that billing refused, and
-- an operator decides. payment_id is the one under which billing books it, once.
CREATE TABLE console.top_up (
  top_up_id uuid PRIMARY KEY,
  account_id text NOT NULL CHECK (account_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  person_id uuid NOT NULL REFERENCES console.person,
  provider text NOT NULL,
  amount_nanos bigint NOT NULL CHECK (amount_nanos > 0),
  state text NOT NULL DEFAULT 'begun' CHECK (state IN ('begun', 'paid', 'expired', 'unbooked')),
  provider_reference text UNIQUE,
  payment_id text UNIQUE,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- When the provider was last asked of it without being told.
  looked_at timestamptz NOT NULL DEFAULT now(),
  paid_at timestamptz,
  CHECK ((state = 'paid') = (paid_at IS NOT NULL)),
  CHECK (state <> 'paid' OR payment_id IS NOT NULL)
);
CREATE INDEX top_up_account ON console.top_up (account_id, created_at);
CREATE INDEX top_up_begun ON console.top_up (looked_at) WHERE state = 'begun';

-- By column, so that not even the service can give a payment another account, person or amount.
GRANT SELECT, INSERT (top_up_id, account_id, person_id, provider, amount_nanos) ON console.top_up TO console_rw;
GRANT UPDATE (state, provider_reference, payment_id, looked_at, paid_at) ON console.top_up TO console_rw;
