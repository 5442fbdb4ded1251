-- Up Migration

-- What audits ask for and what is else only within `event`. Added to the ledger without rewriting it: lines from before
-- have NULL.
ALTER TABLE billing.ledger_line
  ADD COLUMN model_served text,
  ADD COLUMN held_nanos bigint,
  ADD COLUMN cost_nanos bigint,
  ADD COLUMN upstream_cost_nanos bigint;
ALTER TABLE billing.ledger_line ADD CONSTRAINT ledger_line_refund_of_call CHECK (kind <> 6 OR rid IS NOT NULL);

-- Events booked per relay process. Its numbers are dense from 0: fewer events than highest_sequence + 1 means that one
-- is missing, and which. Events overtake each other for moments: whole_at is when none was missing last, so that a hole
-- of a relay that goes on booking has an age, too.
CREATE TABLE billing.session_progress (
  relay_session text PRIMARY KEY,
  events bigint NOT NULL,
  highest_sequence bigint NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT now(),
  whole_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
-- Relay processes that run now go on with their numbers.
INSERT INTO billing.session_progress (relay_session, events, highest_sequence)
  SELECT relay_session, count(*), max(relay_sequence) FROM billing.ledger_line
  WHERE kind IN (1, 3) AND relay_session <> '' GROUP BY relay_session;

-- Sums of the lines of days on which nothing can be booked any more: nobody need read them again, and their partitions
-- may be detached. Days are closed once each, in their order.
CREATE TABLE billing.closed_day (
  day date PRIMARY KEY,
  closed_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE billing.closed_sum (
  account_id text NOT NULL,
  key_id text NOT NULL,
  amount_nanos numeric NOT NULL,
  credited_nanos numeric NOT NULL,
  charged_nanos numeric NOT NULL,
  PRIMARY KEY (account_id, key_id)
);

-- Prices that calls were charged by. A version that comes with other prices is an alarm: rows never change.
CREATE TABLE billing.price_row (
  model text NOT NULL,
  version text NOT NULL,
  prices jsonb NOT NULL,
  first_seen_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (model, version)
);

CREATE TABLE billing.refund (
  refund_id text PRIMARY KEY,
  content_hash bytea NOT NULL,
  account_id text NOT NULL,
  line_id uuid NOT NULL,
  day date NOT NULL
);

-- A refund lowers what a key has spent. Until auth-quota has been told, the version of that stands here: nothing else
-- would ever tell it of a key that is used up and so makes no calls.
ALTER TABLE billing.key_spending ADD COLUMN untold_version bigint;
CREATE INDEX key_spending_untold ON billing.key_spending (key_id) WHERE untold_version IS NOT NULL;

CREATE TABLE billing.report (
  day date NOT NULL,
  made_at timestamptz NOT NULL DEFAULT now(),
  content bytea NOT NULL,
  signature bytea,
  public_key text,
  PRIMARY KEY (day, made_at)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing.report
  FOR EACH STATEMENT EXECUTE FUNCTION billing.refuse_change();

-- What providers say they have billed. The one thing here that is replaced: it is theirs.
CREATE TABLE billing.provider_cost (
  upstream text NOT NULL,
  day date NOT NULL,
  model text NOT NULL,
  invoice_id text NOT NULL,
  cost_nanos bigint NOT NULL,
  usage bytea NOT NULL,
  loaded_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (upstream, day, model)
);

GRANT SELECT, INSERT, UPDATE ON billing.session_progress, billing.closed_sum, billing.provider_cost TO billing_rw;
GRANT SELECT, INSERT ON billing.closed_day, billing.price_row, billing.refund, billing.report TO billing_rw;
