-- Up Migration

-- Where the ledger stands: the server's identity, its timeline, and the table itself. A promotion begins a timeline, a
-- dump is loaded into a new table. A server that does not tell its identity leaves the last two.
CREATE FUNCTION billing.ledger_place() RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  server text := 'unknown';
BEGIN
  BEGIN
    server := (SELECT system_identifier FROM pg_control_system()) || '/' ||
      left(pg_walfile_name(pg_current_wal_lsn()), 8);
  EXCEPTION
    WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN NULL;
  END;
  RETURN server || '/' || 'billing.ledger_line'::regclass::oid;
END
$$;
REVOKE ALL ON FUNCTION billing.ledger_place() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION billing.ledger_place() TO billing_rw;

-- One row for each time that the ledger was found elsewhere, or behind what had been booked. An epoch is healed when
-- everything that the usage stream holds since `booked_until` is booked again.
CREATE TABLE billing.ledger_epoch (
  epoch integer PRIMARY KEY CHECK (epoch BETWEEN 1 AND 1000000),
  place text NOT NULL,
  reason text NOT NULL,
  stream text NOT NULL,
  booked_until bigint NOT NULL,
  opened_at timestamptz NOT NULL DEFAULT now(),
  healed_at timestamptz,
  -- Until when one process heals it; another takes over then.
  claimed_until timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, UPDATE (healed_at, claimed_until) ON billing.ledger_epoch TO billing_rw;
INSERT INTO billing.ledger_epoch (epoch, place, reason, stream, booked_until, healed_at)
VALUES (1, billing.ledger_place(), 'begun', '', 0, now());

-- The highest sequence of the usage stream in any committed batch. Several rows a stream, one for each group of
-- connections: on one row, processes that book side by side would commit one after another.
CREATE TABLE billing.stream_progress (
  stream text NOT NULL,
  bucket smallint NOT NULL,
  booked_sequence bigint NOT NULL,
  PRIMARY KEY (stream, bucket)
) WITH (fillfactor = 50);
GRANT SELECT, INSERT, UPDATE ON billing.stream_progress TO billing_rw;

-- Versions of a new epoch begin above all that an earlier one can have given out: of two versions auth-quota keeps the
-- newer, and a ledger that has lost its last seconds would give out some of them twice.
CREATE FUNCTION billing.first_version() RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
  'SELECT (max(epoch) - 1) * 4294967296 FROM billing.ledger_epoch';
ALTER TABLE billing.account ALTER COLUMN version SET DEFAULT billing.first_version();
ALTER TABLE billing.account ALTER COLUMN pushed_version SET DEFAULT billing.first_version();

-- Lines by hand that the stream does not hold yet: written with the line, deleted when it does.
CREATE TABLE billing.funds_outbox (
  account_id text NOT NULL,
  line_id uuid NOT NULL,
  day date NOT NULL,
  PRIMARY KEY (line_id)
);
GRANT SELECT, INSERT, DELETE ON billing.funds_outbox TO billing_rw;
