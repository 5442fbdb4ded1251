-- Up Migration

-- Records in quarantine of which it was written down 400 days ago that the ledger has them, or a line by hand for them. No
-- stream holds their bytes any more, so that nothing can be told from them.
CREATE FUNCTION billing.forget_settled() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  ids bigint[];
BEGIN
  WITH gone AS (
    DELETE FROM billing.quarantine_booked WHERE booked_at < now() - interval '400 days' RETURNING quarantine_id
  )
  SELECT coalesce(array_agg(quarantine_id), '{}') INTO ids FROM gone;
  DELETE FROM billing.usage_quarantine WHERE quarantine_id = ANY (ids);
  RETURN cardinality(ids);
END
$$;
REVOKE ALL ON FUNCTION billing.forget_settled() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION billing.forget_settled() TO billing_rw;
