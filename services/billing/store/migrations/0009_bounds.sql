-- Up Migration

-- As before, and on a day that is closed nothing is booked any more, whatever closed it: its lines may be gone, and an
-- event that comes again could not be told from a new one.
CREATE OR REPLACE FUNCTION billing.ensure_ledger_day(wanted date) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  today date := (now() AT TIME ZONE 'UTC')::date;
  partition text := 'ledger_line_' || to_char(wanted, 'YYYY_MM_DD');
BEGIN
  IF wanted < today - 60 OR wanted > today + 1 THEN
    RETURN false;
  END IF;
  IF EXISTS (SELECT FROM billing.closed_day WHERE day = wanted) THEN
    RETURN false;
  END IF;
  IF to_regclass(format('billing.%I', partition)) IS NOT NULL THEN
    RETURN true;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('billing.ensure_ledger_day'));
  -- A plain query sees what was committed while this waited; to_regclass answers from a cache.
  IF EXISTS (
    SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = 'billing' AND c.relname = partition
  ) THEN
    RETURN true;
  END IF;
  -- Made apart and attached: CREATE ... PARTITION OF would lock the whole ledger against those who book.
  EXECUTE format('CREATE TABLE billing.%I (LIKE billing.ledger_line INCLUDING ALL)', partition);
  -- Triggers on statements are not inherited by partitions.
  EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing.%I
    FOR EACH STATEMENT EXECUTE FUNCTION billing.refuse_change()', partition);
  EXECUTE format('ALTER TABLE billing.ledger_line ATTACH PARTITION billing.%I FOR VALUES FROM (%L) TO (%L)',
    partition, wanted, wanted + 1);
  RETURN true;
END
$$;

-- Of a relay process that booked its last event 60 days ago no check looks at the row any more. It is kept for as long as
-- one may have run without a call: forgotten, its next number would be a hole.
CREATE FUNCTION billing.forget_sessions() RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH forgotten AS (
    DELETE FROM billing.session_progress WHERE changed_at < now() - interval '400 days' RETURNING 1
  )
  SELECT count(*) FROM forgotten
$$;
REVOKE ALL ON FUNCTION billing.forget_sessions() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION billing.forget_sessions() TO billing_rw;

-- Sums of hours are kept for as long as days are open and some more: afterwards those of days tell all but parts of a day.
-- hour_sum holds what was booked from `hours_from_ms` on.
ALTER TABLE billing.sum_state ADD COLUMN hours_from_ms bigint NOT NULL DEFAULT 0;
CREATE FUNCTION billing.forget_hours(before_ms bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE billing.sum_state SET hours_from_ms = before_ms WHERE before_ms <= day_until_ms;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'hours of a day that is not whole are not forgotten';
  END IF;
  DELETE FROM billing.hour_sum WHERE booked_at < to_timestamp(before_ms / 1000.0);
END
$$;
REVOKE ALL ON FUNCTION billing.forget_hours(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION billing.forget_hours(bigint) TO billing_rw;
