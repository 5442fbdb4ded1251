-- Usage events from Kafka into ClickHouse. Put usage.proto into the server's format_schema_path first.

-- Each event may be here several times until parts are merged: take sums from the views.
CREATE TABLE usage_event (
  rid String,
  kind Int32, -- 1 final, 2 provisional; later versions may send others
  account_id String,
  key_id String,
  endpoint LowCardinality(String),
  model_requested LowCardinality(String),
  model_served LowCardinality(String),
  upstream LowCardinality(String),
  price_version LowCardinality(String),
  cost_nanos Int64,
  upstream_cost_nanos Int64,
  end_cause Int32, -- numbers, so that values which you do not know yet are kept
  usage_source Int32,
  http_status Int32,
  streamed Bool,
  input_tokens Int64,
  cache_read_tokens Int64,
  output_tokens Int64,
  reasoning_tokens Int64,
  started_at DateTime64(9, 'UTC'),
  ended_at DateTime64(9, 'UTC'),
  -- The ledger's day: of the time in the rid, which is when the call began.
  day Date MATERIALIZED toDate(fromUnixTimestamp64Milli(
    toInt64(reinterpretAsUInt64(reverse(unhex(left(replaceAll(rid, '-', ''), 12))))), 'UTC'))
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(day) ORDER BY (account_id, day, rid, kind);

-- A record is a UsageBatch; add the buckets of usage that you need here and below.
CREATE TABLE usage_batch (
  events Nested(
    rid String,
    kind Int32,
    account_id String,
    key_id String,
    endpoint String,
    model_requested String,
    model_served String,
    upstream String,
    usage Tuple(input_tokens Int64, cache_read_tokens Int64, output_tokens Int64, reasoning_tokens Int64),
    price_version String,
    cost_nanos Int64,
    end_cause Int32,
    usage_source Int32,
    started_at Tuple(seconds Int64, nanos Int32),
    ended_at Tuple(seconds Int64, nanos Int32),
    http_status Int32,
    streamed UInt8,
    upstream_cost_nanos Int64
  )
) ENGINE = Kafka SETTINGS
  kafka_broker_list = 'kafka:9092',
  kafka_topic_list = 'usage.v1.recorded',
  kafka_group_name = 'clickhouse',
  kafka_format = 'ProtobufSingle',
  kafka_schema = 'usage.proto:UsageBatch',
  kafka_handle_error_mode = 'stream';

-- What cannot be decoded is kept and not lost; alert when it has a row.
CREATE TABLE dead_letter (
  topic String,
  record_offset UInt64,
  reason String,
  payload String,
  received_at DateTime DEFAULT now()
) ENGINE = ReplacingMergeTree ORDER BY (topic, record_offset);

CREATE MATERIALIZED VIEW bury TO dead_letter AS
  SELECT _topic AS topic, _offset AS record_offset, _error AS reason, _raw_message AS payload
  FROM usage_batch WHERE length(_error) > 0;

CREATE MATERIALIZED VIEW store TO usage_event AS
  SELECT
    event.rid AS rid, event.kind AS kind, event.account_id AS account_id, event.key_id AS key_id,
    event.endpoint AS endpoint, event.model_requested AS model_requested, event.model_served AS model_served,
    event.upstream AS upstream, event.price_version AS price_version, event.cost_nanos AS cost_nanos,
    event.upstream_cost_nanos AS upstream_cost_nanos, event.end_cause AS end_cause,
    event.usage_source AS usage_source, event.http_status AS http_status, event.streamed AS streamed,
    event.usage.input_tokens AS input_tokens, event.usage.cache_read_tokens AS cache_read_tokens,
    event.usage.output_tokens AS output_tokens, event.usage.reasoning_tokens AS reasoning_tokens,
    fromUnixTimestamp64Nano(event.started_at.seconds * 1000000000 + event.started_at.nanos, 'UTC') AS started_at,
    fromUnixTimestamp64Nano(event.ended_at.seconds * 1000000000 + event.ended_at.nanos, 'UTC') AS ended_at
  FROM usage_batch ARRAY JOIN events AS event
  WHERE length(_error) = 0;

-- The charge of a call, as the ledger has it: a final below the provisional record does not lower it.
CREATE VIEW call_charge AS
  SELECT day, account_id, rid, max(cost_nanos) AS charged_nanos, max(kind = 1) AS is_final
  FROM usage_event WHERE kind IN (1, 2) GROUP BY day, account_id, rid;

CREATE VIEW account_total AS
  SELECT account_id, count() AS calls, sum(charged_nanos) AS charged_nanos, countIf(NOT is_final) AS provisional_calls
  FROM call_charge GROUP BY account_id;
