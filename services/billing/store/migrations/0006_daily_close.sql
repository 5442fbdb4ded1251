-- Up Migration

-- What was booked on a day (UTC), for each account, between two balances: made once the day is final, never changed. The
-- lines are the text of a file, exactly as their hash in the signed content has it.
CREATE TABLE billing.day_close (
  day date PRIMARY KEY,
  made_at timestamptz NOT NULL DEFAULT now(),
  content bytea NOT NULL,
  signature bytea NOT NULL,
  public_key text NOT NULL
);
CREATE TABLE billing.day_close_line (
  day date NOT NULL,
  account_id text COLLATE "C" NOT NULL,
  opening_nanos bigint NOT NULL,
  closing_nanos bigint NOT NULL,
  line text NOT NULL,
  PRIMARY KEY (day, account_id)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing.day_close
  FOR EACH STATEMENT EXECUTE FUNCTION billing.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing.day_close_line
  FOR EACH STATEMENT EXECUTE FUNCTION billing.refuse_change();
GRANT SELECT, INSERT ON billing.day_close, billing.day_close_line TO billing_rw;

-- Lines of a partition lie in the order of their booking, which their ids tell: a few kilobytes say where those of a day
-- are. Made for partitions to come only, because building it on those that are there would stop the booking meanwhile.
CREATE INDEX ledger_line_booked ON ONLY billing.ledger_line USING brin (line_id);
