-- Up Migration

-- Up to when everything that the payment provider told is handled, also what came to no webhook. It goes back with the
-- payments when they are restored. ledger_epoch: of the ledger that has them; null before the first look.
-- claimed_until: while one process looks.
CREATE TABLE console.told_payments (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  told_until timestamptz NOT NULL DEFAULT now(),
  ledger_epoch integer,
  claimed_until timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO console.told_payments DEFAULT VALUES;
GRANT SELECT, UPDATE ON console.told_payments TO console_rw;
