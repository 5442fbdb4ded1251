-- Up Migration

-- What operators ask of all accounts together: sums of lines by their ledger day, once by model and upstream, once by
-- account. The same lines are in both. Rows grow as lines are summed up, in the transaction that moves
-- `business_until_ms`; lines by hand have neither model nor upstream. `uncosted`: calls that used something of which no
-- cost price was known, and what was charged for them.
CREATE TABLE billing.route_sum (
  day date NOT NULL,
  model text NOT NULL,
  upstream text NOT NULL,
  calls bigint NOT NULL,
  failed_calls bigint NOT NULL,
  upstream_failed_calls bigint NOT NULL,
  gone_calls bigint NOT NULL,
  free_calls bigint NOT NULL,
  uncosted_calls bigint NOT NULL,
  charged_nanos numeric NOT NULL,
  uncosted_nanos numeric NOT NULL,
  cost_nanos numeric NOT NULL,
  refunded_nanos numeric NOT NULL,
  credited_nanos numeric NOT NULL,
  corrected_nanos numeric NOT NULL,
  PRIMARY KEY (day, model, upstream)
) WITH (fillfactor = 70);

CREATE TABLE billing.account_sum (
  day date NOT NULL,
  account_id text NOT NULL,
  calls bigint NOT NULL,
  failed_calls bigint NOT NULL,
  upstream_failed_calls bigint NOT NULL,
  gone_calls bigint NOT NULL,
  free_calls bigint NOT NULL,
  uncosted_calls bigint NOT NULL,
  charged_nanos numeric NOT NULL,
  uncosted_nanos numeric NOT NULL,
  cost_nanos numeric NOT NULL,
  refunded_nanos numeric NOT NULL,
  credited_nanos numeric NOT NULL,
  corrected_nanos numeric NOT NULL,
  PRIMARY KEY (day, account_id)
) WITH (fillfactor = 70);
CREATE INDEX account_sum_account ON billing.account_sum (account_id, day);

-- The ledger day of the first call of each account that is summed up.
CREATE TABLE billing.account_start (
  account_id text PRIMARY KEY,
  day date NOT NULL
);
CREATE INDEX account_start_day ON billing.account_start (day);

-- Lines that were booked before `business_until_ms` are in these sums, but for those of the days in
-- business_unsummed_day that were booked before `business_from_ms`. A version that does not know them moves neither.
ALTER TABLE billing.sum_state ADD COLUMN business_from_ms bigint NOT NULL DEFAULT 0;
ALTER TABLE billing.sum_state ADD COLUMN business_until_ms bigint NOT NULL DEFAULT 0;
CREATE TABLE billing.business_unsummed_day (day date PRIMARY KEY);

CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON billing.route_sum
  FOR EACH STATEMENT EXECUTE FUNCTION billing.refuse_change();
CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON billing.account_sum
  FOR EACH STATEMENT EXECUTE FUNCTION billing.refuse_change();

GRANT SELECT, INSERT, UPDATE ON billing.route_sum, billing.account_sum, billing.account_start TO billing_rw;
GRANT SELECT, INSERT, DELETE ON billing.business_unsummed_day TO billing_rw;
