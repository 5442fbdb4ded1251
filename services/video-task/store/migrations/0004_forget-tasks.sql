-- Up Migration

-- Submissions are forgotten 400 days after they were made, with the money that they moved once all of it is booked: their
-- provider has deleted the file long before, and the ledger keeps the id of each refund. Some at a time, the oldest first
-- by the times in their rids.
CREATE FUNCTION video_task.forget_tasks(most integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rids uuid[];
BEGIN
  SELECT coalesce(array_agg(rid), '{}') INTO rids FROM (
    SELECT t.rid FROM video_task.task AS t
    WHERE t.rid < rpad(
        lpad(to_hex((extract(epoch FROM now() - interval '400 days') * 1000)::bigint), 12, '0'), 32, '0')::uuid
      AND t.state IN ('refused', 'unknown', 'completed', 'failed') AND t.next_look_at IS NULL
      AND NOT EXISTS (SELECT FROM video_task.money_event AS e WHERE e.rid = t.rid AND e.booked_at IS NULL)
    ORDER BY t.rid LIMIT most FOR UPDATE SKIP LOCKED
  ) AS due;
  DELETE FROM video_task.money_event WHERE rid = ANY (rids);
  DELETE FROM video_task.task WHERE rid = ANY (rids);
  RETURN cardinality(rids);
END
$$;
REVOKE ALL ON FUNCTION video_task.forget_tasks(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION video_task.forget_tasks(integer) TO video_task_rw;
