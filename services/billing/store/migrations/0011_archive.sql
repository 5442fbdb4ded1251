-- Up Migration

-- Closed days whose lines are in the archive: what was signed of them, and by whom. A row stays for ever, so that what is
-- read back can be held against it.
CREATE TABLE billing.archived_day (
  day date PRIMARY KEY REFERENCES billing.closed_day,
  content bytea NOT NULL,
  signature bytea NOT NULL,
  public_key text NOT NULL,
  lines bigint NOT NULL,
  amount_nanos numeric NOT NULL,
  archived_at timestamptz NOT NULL DEFAULT now(),
  -- Since when its lines are being read back, and since when they are in the ledger again.
  restoring_at timestamptz,
  restored_at timestamptz
);
CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON billing.archived_day
  FOR EACH STATEMENT EXECUTE FUNCTION billing.refuse_change();
GRANT SELECT ON billing.archived_day TO billing_rw;
GRANT INSERT (day, content, signature, public_key, lines, amount_nanos) ON billing.archived_day TO billing_rw;

-- Takes an archived day's partition out of the ledger. Its lines are counted again under a lock that nobody can add to
-- them by; then the ledger itself is locked for a moment, for which whoever asks sets a lock_timeout.
CREATE FUNCTION billing.leave_ledger_day(wanted date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  partition text := 'ledger_line_' || to_char(wanted, 'YYYY_MM_DD');
  kept record;
  found record;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('billing.ledger_day_archive'));
  IF wanted > (now() AT TIME ZONE 'UTC')::date - 90 THEN
    RAISE EXCEPTION '% is too young to leave the ledger', wanted USING ERRCODE = 'insufficient_privilege';
  END IF;
  SELECT lines, amount_nanos INTO kept FROM billing.archived_day WHERE day = wanted;
  IF kept IS NULL THEN
    RAISE EXCEPTION '% is not archived', wanted USING ERRCODE = 'insufficient_privilege';
  END IF;
  IF EXISTS (SELECT FROM billing.funds_outbox WHERE day = wanted) THEN
    RAISE EXCEPTION 'a line by hand of % is not on the stream yet', wanted;
  END IF;
  IF EXISTS (SELECT FROM billing.unsummed_day WHERE day = wanted AND NOT is_detached) THEN
    RAISE EXCEPTION '% is not summed up', wanted;
  END IF;
  EXECUTE format('LOCK TABLE billing.%I IN SHARE MODE', partition);
  EXECUTE format('SELECT count(*) AS lines, coalesce(sum(amount_nanos), 0) AS amount_nanos FROM billing.%I', partition)
    INTO found;
  IF found.lines <> kept.lines OR found.amount_nanos <> kept.amount_nanos THEN
    RAISE EXCEPTION '% has % lines of % in the ledger, % of % in the archive', wanted, found.lines, found.amount_nanos,
      kept.lines, kept.amount_nanos;
  END IF;
  EXECUTE format('ALTER TABLE billing.ledger_line DETACH PARTITION billing.%I', partition);
  EXECUTE format('DROP TABLE billing.%I', partition);
  UPDATE billing.archived_day SET restored_at = NULL WHERE day = wanted;
END
$$;
REVOKE ALL ON FUNCTION billing.leave_ledger_day(date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION billing.leave_ledger_day(date) TO billing_rw;

-- Makes an empty table for the lines of a day that are read back: no part of the ledger until they are all there.
CREATE FUNCTION billing.begin_restore(wanted date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  made text := 'restoring_' || to_char(wanted, 'YYYY_MM_DD');
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('billing.ledger_day_archive'));
  UPDATE billing.archived_day SET restoring_at = now() WHERE day = wanted AND restored_at IS NULL;
  IF NOT FOUND THEN
    RAISE EXCEPTION '% is not out of the ledger', wanted;
  END IF;
  EXECUTE format('DROP TABLE IF EXISTS billing.%I', made);
  EXECUTE format('CREATE TABLE billing.%I (LIKE billing.ledger_line INCLUDING ALL)', made);
  EXECUTE format('GRANT SELECT, INSERT ON billing.%I TO billing_rw', made);
END
$$;
REVOKE ALL ON FUNCTION billing.begin_restore(date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION billing.begin_restore(date) TO billing_rw;

-- Makes that table a partition of the ledger again, when it has as many lines and as much money as left.
CREATE FUNCTION billing.end_restore(wanted date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  made text := 'restoring_' || to_char(wanted, 'YYYY_MM_DD');
  partition text := 'ledger_line_' || to_char(wanted, 'YYYY_MM_DD');
  kept record;
  found record;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('billing.ledger_day_archive'));
  SELECT lines, amount_nanos INTO kept FROM billing.archived_day WHERE day = wanted AND restoring_at IS NOT NULL;
  EXECUTE format('REVOKE ALL ON billing.%I FROM billing_rw', made);
  EXECUTE format('SELECT count(*) AS lines, coalesce(sum(amount_nanos), 0) AS amount_nanos FROM billing.%I', made)
    INTO found;
  IF kept IS NULL OR found.lines <> kept.lines OR found.amount_nanos <> kept.amount_nanos THEN
    RAISE EXCEPTION '% lines of % are read back of %, not those that left', found.lines, found.amount_nanos, wanted;
  END IF;
  EXECUTE format('ALTER TABLE billing.%I RENAME TO %I', made, partition);
  EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing.%I
    FOR EACH STATEMENT EXECUTE FUNCTION billing.refuse_change()', partition);
  EXECUTE format('ALTER TABLE billing.ledger_line ATTACH PARTITION billing.%I FOR VALUES FROM (%L) TO (%L)',
    partition, wanted, wanted + 1);
  UPDATE billing.archived_day SET restoring_at = NULL, restored_at = now() WHERE day = wanted;
END
$$;
REVOKE ALL ON FUNCTION billing.end_restore(date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION billing.end_restore(date) TO billing_rw;

-- Drops what was read back a day ago and was never whole; returns how many tables.
CREATE FUNCTION billing.forget_restores() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  stale date;
  forgotten integer := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('billing.ledger_day_archive'));
  FOR stale IN SELECT day FROM billing.archived_day WHERE restoring_at < now() - interval '1 day' LOOP
    EXECUTE format('DROP TABLE IF EXISTS billing.%I', 'restoring_' || to_char(stale, 'YYYY_MM_DD'));
    UPDATE billing.archived_day SET restoring_at = NULL WHERE day = stale;
    forgotten := forgotten + 1;
  END LOOP;
  RETURN forgotten;
END
$$;
REVOKE ALL ON FUNCTION billing.forget_restores() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION billing.forget_restores() TO billing_rw;
