-- Up Migration

-- Reports leave 400 days after they were made, and lines of closed days 401 days after the closing, so that a file whose
-- reading has begun is whole. Younger ones nobody deletes, the owner neither. What was signed of a closed day stays: it
-- has the hash of the file, for whoever has kept that.
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON billing.report
  FOR EACH STATEMENT EXECUTE FUNCTION billing.refuse_change();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON billing.day_close_line
  FOR EACH STATEMENT EXECUTE FUNCTION billing.refuse_change();
CREATE TRIGGER kept BEFORE DELETE ON billing.report
  FOR EACH ROW WHEN (OLD.made_at >= now() - interval '400 days') EXECUTE FUNCTION billing.refuse_change();
CREATE TRIGGER kept BEFORE DELETE ON billing.day_close_line
  FOR EACH ROW WHEN (OLD.day >= (now() AT TIME ZONE 'UTC')::date - 400) EXECUTE FUNCTION billing.refuse_change();

CREATE FUNCTION billing.forget_reports() RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH forgotten AS (
    DELETE FROM billing.report WHERE made_at < now() - interval '400 days' RETURNING 1
  )
  SELECT count(*) FROM forgotten
$$;
REVOKE ALL ON FUNCTION billing.forget_reports() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION billing.forget_reports() TO billing_rw;

-- Some at a time, of the oldest day first. The last closed day keeps its lines: the next one must open as they close.
CREATE FUNCTION billing.forget_close_lines(most integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH due AS (
    SELECT l.day, l.account_id FROM billing.day_close AS c JOIN billing.day_close_line AS l USING (day)
    WHERE c.made_at < now() - interval '401 days' AND c.day < (SELECT max(day) FROM billing.day_close)
    ORDER BY l.day, l.account_id LIMIT most
  ), forgotten AS (
    DELETE FROM billing.day_close_line AS l USING due
    WHERE l.day = due.day AND l.account_id = due.account_id RETURNING 1
  )
  SELECT count(*) FROM forgotten
$$;
REVOKE ALL ON FUNCTION billing.forget_close_lines(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION billing.forget_close_lines(integer) TO billing_rw;
