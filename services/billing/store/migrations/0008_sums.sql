-- Up Migration

-- Sums of lines, so that usage, statements and reconciliation need not read them again. Each row is what was booked
-- within one hour for calls of one hour; `opened_at` is the hour of an adjustment's provisional charge, else that of
-- the booking. Lines by hand are at the start of their day. Nothing is booked in an hour that is summed up, so that
-- rows never change. Numeric: a line's units alone may fill a bigint. Units that were not used are NULL.
CREATE TABLE billing.hour_sum (
  account_id text NOT NULL,
  booked_at timestamptz NOT NULL,
  opened_at timestamptz NOT NULL,
  called_at timestamptz NOT NULL,
  kind smallint NOT NULL,
  key_id text NOT NULL,
  model text NOT NULL,
  lines bigint NOT NULL,
  failed bigint NOT NULL,
  amount_nanos numeric NOT NULL,
  input_tokens numeric,
  cache_read_tokens numeric,
  cache_write_5m_tokens numeric,
  cache_write_1h_tokens numeric,
  output_tokens numeric,
  reasoning_tokens numeric,
  audio_input_tokens numeric,
  audio_output_tokens numeric,
  image_input_tokens numeric,
  image_output_tokens numeric,
  images numeric,
  characters numeric,
  media_ms numeric,
  tool_calls numeric,
  requests numeric,
  web_searches numeric,
  web_fetches numeric,
  file_searches numeric,
  code_sessions numeric,
  search_sources numeric,
  other_models_nanos numeric,
  PRIMARY KEY (account_id, booked_at, called_at, opened_at, kind, key_id, model)
);
CREATE INDEX hour_sum_called ON billing.hour_sum (account_id, called_at);
CREATE INDEX hour_sum_booked ON billing.hour_sum USING brin (booked_at) WITH (pages_per_range = 16);
CREATE INDEX hour_sum_day ON billing.hour_sum USING brin (called_at) WITH (pages_per_range = 16);

-- The same by days (UTC) of booking and call, the sums of hour_sum once a day is whole; `opened_at` of adjustments stays
-- an hour.
CREATE TABLE billing.day_sum (LIKE billing.hour_sum INCLUDING ALL);

-- What was booked on all whole days, of lines of any day. It begins with closed_sum, which nothing writes any more: a
-- version that runs beside this one takes that for the sums of closed days.
CREATE TABLE billing.booked_sum (LIKE billing.closed_sum INCLUDING ALL);

CREATE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON billing.hour_sum
  FOR EACH STATEMENT EXECUTE FUNCTION billing.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing.day_sum
  FOR EACH STATEMENT EXECUTE FUNCTION billing.refuse_change();

-- How far lines are summed up, by the time in their ids, in milliseconds since 1970. `fence_ms`: no transaction gives
-- a line an earlier id any more. hour_sum is whole before `summed_until_ms`, but for the days in unsummed_day, of which
-- it lacks what was booked before `backfill_until_ms`. day_sum and booked_sum hold what was booked before
-- `day_until_ms`.
CREATE TABLE billing.sum_state (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  fence_ms bigint NOT NULL DEFAULT 0,
  summed_until_ms bigint NOT NULL DEFAULT 0,
  backfill_until_ms bigint NOT NULL DEFAULT 0,
  day_until_ms bigint NOT NULL DEFAULT 0
);
INSERT INTO billing.sum_state DEFAULT VALUES;

-- Days of a ledger from before there were sums that are to be summed up. Of closed days booked_sum has the lines already;
-- those whose partition is gone stay here.
CREATE TABLE billing.unsummed_day (
  day date PRIMARY KEY,
  is_closed boolean NOT NULL,
  is_detached boolean NOT NULL
);

GRANT SELECT, INSERT ON billing.hour_sum, billing.day_sum TO billing_rw;
GRANT SELECT, INSERT, UPDATE ON billing.booked_sum TO billing_rw;
GRANT SELECT, UPDATE ON billing.sum_state TO billing_rw;
GRANT SELECT, INSERT, DELETE ON billing.unsummed_day TO billing_rw;

-- The time from which on the lines of this transaction have their ids. The lock, shared by all who book, is held until
-- they have committed: when the fence has moved, none is left that was told of the one before. Volatile, so that the
-- fence is read after the lock was got.
CREATE FUNCTION billing.line_fence() RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(hashtext('billing.line_fence'));
  RETURN (SELECT fence_ms FROM billing.sum_state);
END
$$;
REVOKE ALL ON FUNCTION billing.line_fence() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION billing.line_fence() TO billing_rw;

-- Provisional charges are few, and reconciliation looks for those that no final followed on all open days.
CREATE INDEX ledger_line_provisional ON ONLY billing.ledger_line (rid) WHERE kind = 2;
