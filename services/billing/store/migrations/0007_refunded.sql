-- Up Migration

-- What an account has spent is what it was charged less this. Charges and refunds all have a key, whose sums told it until
-- now.
ALTER TABLE billing.account ADD COLUMN refunded_nanos bigint NOT NULL DEFAULT 0;
UPDATE billing.account AS a SET refunded_nanos = a.charged_nanos - k.spent_nanos
FROM (SELECT account_id, sum(spent_nanos) AS spent_nanos FROM billing.key_spending GROUP BY account_id) AS k
WHERE k.account_id = a.account_id AND a.charged_nanos <> k.spent_nanos;
