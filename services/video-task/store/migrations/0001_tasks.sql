-- Up Migration

-- Roles belong to the whole cluster: another database, a run at the same instant, or an administrator, for an owner
-- who may make no roles, may have made this one.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'video_task_rw') THEN
    CREATE ROLE video_task_rw NOLOGIN;
  END IF;
EXCEPTION
  WHEN duplicate_object OR unique_violation THEN NULL;
END
$$;

GRANT USAGE ON SCHEMA video_task TO video_task_rw;

-- One row per submission, written before a provider hears of it. States:
--   submitting → queued | refused | unknown; queued → in_progress; queued, in_progress → completed | failed.
-- Only queued and what follows are tasks of their account. `charge` is the usage record as the relay sent it while the
-- task is submitted, and the final one from its acceptance on.
CREATE TABLE video_task.task (
  rid uuid PRIMARY KEY,
  account_id text NOT NULL CHECK (account_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  state text NOT NULL CHECK
    (state IN ('submitting', 'refused', 'unknown', 'queued', 'in_progress', 'completed', 'failed')),
  idempotency_key text CHECK (char_length(idempotency_key) BETWEEN 1 AND 255),
  request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32),
  model text NOT NULL,
  prompt text NOT NULL,
  seconds integer NOT NULL CHECK (seconds > 0),
  size text NOT NULL,
  deadline_seconds integer NOT NULL CHECK (deadline_seconds > 0),
  charge bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- Who submits it; the row's owner says so again and again while it does.
  lease_until timestamptz,
  -- Why it was refused: video.v1.RefusalReason, and seconds to wait.
  refusal smallint,
  retry_after_seconds integer,
  -- Where it runs, from its acceptance on.
  upstream text,
  dialect text,
  upstream_id text,
  cost_nanos bigint,
  accepted_at timestamptz,
  progress smallint NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 100),
  -- When the provider is asked next; null: never again. Whoever looks first moves it on by the lease of a look.
  next_look_at timestamptz,
  -- Looks in a row that were not answered, and that were answered with "no such task".
  unanswered integer NOT NULL DEFAULT 0,
  missing integer NOT NULL DEFAULT 0,
  ended_at timestamptz,
  error_code text,
  error_message text,
  -- When the provider deletes the file, and where it is, for providers that say so.
  expires_at timestamptz,
  content_url text,
  deleted_at timestamptz,
  CHECK (state IN ('submitting', 'refused', 'unknown') OR
    (upstream IS NOT NULL AND dialect IS NOT NULL AND upstream_id IS NOT NULL AND cost_nanos IS NOT NULL
      AND accepted_at IS NOT NULL)),
  CHECK ((state = 'submitting') = (lease_until IS NOT NULL)),
  CHECK ((state IN ('completed', 'failed')) = (ended_at IS NOT NULL)),
  CHECK ((state = 'failed') = (error_code IS NOT NULL))
) WITH (fillfactor = 70);

-- What makes a provider's task one of ours once, and an idempotency key one submission.
CREATE UNIQUE INDEX task_upstream ON video_task.task (upstream, upstream_id) WHERE upstream_id IS NOT NULL;
CREATE UNIQUE INDEX task_idempotency ON video_task.task (account_id, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX task_account ON video_task.task (account_id, rid)
  WHERE deleted_at IS NULL AND state IN ('queued', 'in_progress', 'completed', 'failed');
CREATE INDEX task_due ON video_task.task (next_look_at) WHERE next_look_at IS NOT NULL;
CREATE INDEX task_submitting ON video_task.task (lease_until) WHERE state = 'submitting';

-- Money that a change of state moves, written in the transaction of that change. At most one of each kind for a task:
-- the primary key is what makes a refund happen once. Kinds: 1 charge, 2 refund.
CREATE TABLE video_task.money_event (
  rid uuid NOT NULL REFERENCES video_task.task,
  kind smallint NOT NULL CHECK (kind IN (1, 2)),
  account_id text NOT NULL,
  -- Of a refund; 0: all that was charged. Of a charge, what it charges.
  amount_nanos bigint NOT NULL CHECK (amount_nanos >= 0),
  reason text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- When it is tried next; null: it is booked.
  next_try_at timestamptz,
  tries integer NOT NULL DEFAULT 0,
  booked_at timestamptz,
  PRIMARY KEY (rid, kind),
  CHECK ((next_try_at IS NULL) = (booked_at IS NOT NULL))
) WITH (fillfactor = 70);

CREATE INDEX money_event_due ON video_task.money_event (next_try_at) WHERE next_try_at IS NOT NULL;

-- States only go forward, and what has ended stays as it is, whatever a process does that was paused for long.
CREATE FUNCTION video_task.check_state() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  forward text[] := CASE OLD.state
    WHEN 'submitting' THEN ARRAY['submitting', 'refused', 'unknown', 'queued']
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

CREATE TRIGGER states_go_forward BEFORE UPDATE OF state ON video_task.task
  FOR EACH ROW EXECUTE FUNCTION video_task.check_state();

GRANT SELECT, INSERT, UPDATE ON video_task.task, video_task.money_event TO video_task_rw;
