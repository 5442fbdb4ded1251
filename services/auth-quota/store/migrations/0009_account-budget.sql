-- Up Migration

-- What all keys of an account may spend together: columns as a key has them, by the same rules.
ALTER TABLE auth_quota.account
  ADD COLUMN limit_nanos bigint CHECK (limit_nanos BETWEEN 0 AND 9007199254740991),
  ADD COLUMN budget_nanos bigint CHECK (budget_nanos BETWEEN 0 AND 9007199254740991),
  ADD COLUMN budget_period text CHECK (budget_period IN ('day', 'week', 'month')),
  ADD COLUMN budget_from timestamptz DEFAULT '-infinity',
  ADD CHECK ((budget_nanos IS NULL) = (budget_period IS NULL));
CREATE INDEX account_budget ON auth_quota.account (budget_period, budget_from) WHERE budget_period IS NOT NULL;
GRANT UPDATE (limit_nanos, budget_nanos, budget_period, budget_from) ON auth_quota.account TO auth_quota_rw;
