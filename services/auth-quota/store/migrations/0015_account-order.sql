-- Up Migration

-- Pages of all accounts are in this order, whatever the collation of the database: without it each sorts them all.
CREATE INDEX account_order ON auth_quota.account (account_id COLLATE "C");
