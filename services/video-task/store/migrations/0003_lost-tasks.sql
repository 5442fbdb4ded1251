-- Up Migration

-- Up to which line of the ledger every charge of a video is known to have its task. It goes back with the tasks when
-- they are restored, so that what was charged since is looked at again.
CREATE TABLE video_task.charges_checked (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  until_line_id text NOT NULL
);
INSERT INTO video_task.charges_checked (until_line_id) VALUES ('');
GRANT SELECT, UPDATE ON video_task.charges_checked TO video_task_rw;

-- As before, but a submission that the ledger has a charge of was accepted, whatever an older copy of its row says: it
-- has failed, and is refunded.
CREATE OR REPLACE FUNCTION video_task.check_state() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  forward text[] := CASE OLD.state
    WHEN 'submitting' THEN ARRAY['submitting', 'refused', 'unknown', 'queued', 'failed']
    WHEN 'refused' THEN ARRAY['refused', 'failed']
    WHEN 'unknown' THEN ARRAY['unknown', 'failed']
    WHEN 'queued' THEN ARRAY['queued', 'in_progress', 'completed', 'failed']
    WHEN 'in_progress' THEN ARRAY['in_progress', 'completed', 'failed']
    ELSE ARRAY[OLD.state]
  END;
BEGIN
  IF NEW.state <> ALL (forward) THEN
    RAISE EXCEPTION 'a task that is % cannot become %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END
$$;
