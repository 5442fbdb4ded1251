-- The tables that the three examples write; put them where your books are.

CREATE TABLE usage_event (
  rid text NOT NULL,
  kind integer NOT NULL, -- 1 final, 2 provisional; later versions may send others
  account_id text NOT NULL,
  cost_nanos bigint NOT NULL,
  end_cause integer NOT NULL, -- numbers, so that values which you do not know yet are kept
  usage_source integer NOT NULL,
  ended_at timestamptz,
  event bytea NOT NULL, -- usage.v1.UsageRecorded, with the fields that you do not know yet
  PRIMARY KEY (rid, kind)
);

-- What could not be handled: a whole message (position -1), or one event of it.
CREATE TABLE dead_letter (
  stream_sequence bigint NOT NULL,
  position integer NOT NULL,
  reason text NOT NULL,
  payload bytea NOT NULL,
  received_at timestamptz NOT NULL DEFAULT now()
);
-- With its bytes: a stream that was lost and made anew counts its messages from 1 again.
CREATE UNIQUE INDEX dead_letter_once ON dead_letter (stream_sequence, position, md5(payload));

-- The charge of a call, as the ledger has it: a final below the provisional record does not lower it.
CREATE VIEW call_charge AS
  SELECT rid, account_id, max(cost_nanos) AS charged_nanos, bool_or(kind = 1) AS is_final
  FROM usage_event WHERE kind IN (1, 2) GROUP BY rid, account_id;

-- By the ledger's day: UTC, of the time in the rid, which is when the call began.
CREATE VIEW day_total AS
  SELECT (to_timestamp(('x' || left(replace(rid, '-', ''), 12))::bit(48)::bigint / 1000.0) AT TIME ZONE 'UTC')::date AS day,
    account_id, count(*) AS calls, sum(charged_nanos) AS charged_nanos
  FROM call_charge GROUP BY day, account_id;

CREATE VIEW account_total AS
  SELECT account_id, count(*) AS calls, sum(charged_nanos) AS charged_nanos,
    count(*) FILTER (WHERE NOT is_final) AS provisional_calls
  FROM call_charge GROUP BY account_id;

-- What the examples print.
CREATE VIEW account_line AS
  SELECT format('%s: %s calls, %s nano-USD, %s provisional', account_id, calls, charged_nanos, provisional_calls) AS line
  FROM account_total;
