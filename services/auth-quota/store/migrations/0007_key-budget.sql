-- Up Migration

-- A budget is a limit that begins anew with each day, week or month (UTC). limit_nanos stays what is enforced: what the
-- key had spent when the period began, and the budget. budget_from is the beginning of that period; none has begun yet
-- where it is -infinity.
ALTER TABLE auth_quota.key
  ADD COLUMN budget_nanos bigint CHECK (budget_nanos BETWEEN 0 AND 9007199254740991),
  ADD COLUMN budget_period text CHECK (budget_period IN ('day', 'week', 'month')),
  ADD COLUMN budget_from timestamptz DEFAULT '-infinity',
  ADD CHECK ((budget_nanos IS NULL) = (budget_period IS NULL));
CREATE INDEX key_budget ON auth_quota.key (budget_period, budget_from)
  WHERE budget_period IS NOT NULL AND status <> 'deleted';
GRANT UPDATE (budget_nanos, budget_period, budget_from) ON auth_quota.key TO auth_quota_rw;
