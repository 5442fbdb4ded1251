-- Up Migration

-- Roles belong to the whole cluster: another database, a run at the same instant, or an administrator, for an owner
-- who may make no roles, may have made this one.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'billing_rw') THEN
    CREATE ROLE billing_rw NOLOGIN;
  END IF;
EXCEPTION
  WHEN duplicate_object OR unique_violation THEN NULL;
END
$$;

GRANT USAGE ON SCHEMA billing TO billing_rw;

-- Half-empty pages keep the frequent updates of balances on their page (HOT), without touching the index.
CREATE TABLE billing.account (
  account_id text PRIMARY KEY,
  balance_nanos bigint NOT NULL DEFAULT 0,
  credited_nanos bigint NOT NULL DEFAULT 0,
  charged_nanos bigint NOT NULL DEFAULT 0,
  version bigint NOT NULL DEFAULT 0,
  pushed_version bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE billing.key_spending (
  key_id text PRIMARY KEY,
  account_id text NOT NULL,
  spent_nanos bigint NOT NULL,
  version bigint NOT NULL
) WITH (fillfactor = 50);

-- Kinds: 1 charge, 2 provisional charge, 3 final adjustment, 4 credit, 5 correction, 6 refund.
-- Units are what a line adds: those of an adjustment are the difference to its provisional line, so that sums are
-- right without looking at kinds. No units: NULL, which takes no room.
CREATE TABLE billing.ledger_line (
  day date NOT NULL,
  line_id uuid NOT NULL,
  kind smallint NOT NULL CHECK (kind BETWEEN 1 AND 6),
  account_id text NOT NULL,
  key_id text,
  amount_nanos bigint NOT NULL,
  rid uuid,
  reference text,
  note text,
  booked_at timestamptz NOT NULL DEFAULT now(),
  price_version text,
  model_requested text,
  upstream text,
  end_cause smallint,
  usage_source smallint,
  relay_session text,
  relay_sequence bigint,
  input_tokens bigint,
  cache_read_tokens bigint,
  cache_write_5m_tokens bigint,
  cache_write_1h_tokens bigint,
  output_tokens bigint,
  reasoning_tokens bigint,
  audio_input_tokens bigint,
  audio_output_tokens bigint,
  image_input_tokens bigint,
  image_output_tokens bigint,
  images bigint,
  characters bigint,
  media_ms bigint,
  tool_calls bigint,
  requests bigint,
  event bytea,
  payload_hash bytea NOT NULL,
  PRIMARY KEY (account_id, line_id, day),
  CHECK (kind > 3 OR (rid IS NOT NULL AND key_id IS NOT NULL AND event IS NOT NULL))
) PARTITION BY RANGE (day);

-- What makes a charge happen once.
CREATE UNIQUE INDEX ledger_line_call ON billing.ledger_line (rid, kind, day) WHERE kind <= 3;
CREATE INDEX ledger_line_about_call ON billing.ledger_line (rid) WHERE kind > 3 AND rid IS NOT NULL;

CREATE FUNCTION billing.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'the ledger is append-only: % refused', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing.ledger_line
  FOR EACH STATEMENT EXECUTE FUNCTION billing.refuse_change();

-- Makes the partition of a day. False when the day is too far off for a call to be booked on it.
CREATE FUNCTION billing.ensure_ledger_day(wanted date) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  today date := (now() AT TIME ZONE 'UTC')::date;
  partition text := 'ledger_line_' || to_char(wanted, 'YYYY_MM_DD');
BEGIN
  IF wanted < today - 60 OR wanted > today + 1 THEN
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
REVOKE ALL ON FUNCTION billing.ensure_ledger_day(date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION billing.ensure_ledger_day(date) TO billing_rw;

-- One row per payment or correction that came in: makes Credit and Correct happen once.
CREATE TABLE billing.payment (
  payment_id text PRIMARY KEY,
  content_hash bytea NOT NULL,
  account_id text NOT NULL,
  line_id uuid NOT NULL,
  day date NOT NULL
);

CREATE TABLE billing.correction (
  correction_id text PRIMARY KEY,
  content_hash bytea NOT NULL,
  account_id text NOT NULL,
  line_id uuid NOT NULL,
  day date NOT NULL
);

-- What could not be booked. The same bytes come again with every redelivery and are kept once.
CREATE TABLE billing.usage_quarantine (
  quarantine_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  reason text NOT NULL,
  payload bytea NOT NULL,
  payload_hash bytea NOT NULL UNIQUE,
  rid uuid,
  stream_sequence bigint,
  received_at timestamptz NOT NULL DEFAULT now()
);

GRANT SELECT, INSERT, UPDATE ON billing.account, billing.key_spending TO billing_rw;
GRANT SELECT, INSERT ON billing.ledger_line, billing.payment, billing.correction, billing.usage_quarantine
  TO billing_rw;
