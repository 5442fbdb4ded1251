-- Processes book the same accounts side by side: accounts are locked for the end of a transaction, no longer for all of
-- it. What the locks of accounts kept apart besides, a final and a provisional record of one call, is now kept apart by
-- the lock 'billing.calls': shared by those who book finals only, and taken alone by those who book a provisional.

-- What line_fence() was.
CREATE FUNCTION billing.sums_fence() RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(hashtext('billing.line_fence'));
  RETURN (SELECT fence_ms FROM billing.sum_state);
END
$$;
REVOKE ALL ON FUNCTION billing.sums_fence() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION billing.sums_fence() TO billing_rw;

-- The version before calls this under the locks of its accounts, and knows nothing of the other lock: it books alone.
-- While it is replaced, the two may wait for each other; PostgreSQL ends one of them, which tries again.
CREATE OR REPLACE FUNCTION billing.line_fence() RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('billing.calls'));
  RETURN billing.sums_fence();
END
$$;
