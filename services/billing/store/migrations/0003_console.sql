-- Up Migration

-- When a charge of the key was booked last; NULL for keys that nothing was booked for since this column is there.
ALTER TABLE billing.key_spending ADD COLUMN charged_at timestamptz;

-- Vouchers that were made together: what they have in common. Rows never change.
CREATE TABLE billing.voucher_batch (
  batch_id text PRIMARY KEY,
  batch_number bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  content_hash bytea NOT NULL,
  amount_nanos bigint NOT NULL CHECK (amount_nanos > 0),
  expires_at timestamptz,
  note text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);

-- States: 1 open, 2 redeemed, 3 void, as in billing.v1.VoucherState. Codes are nowhere, only their SHA-256.
CREATE TABLE billing.voucher (
  batch_id text NOT NULL REFERENCES billing.voucher_batch,
  number integer NOT NULL CHECK (number > 0),
  code_hash bytea NOT NULL UNIQUE CHECK (octet_length(code_hash) = 32),
  state smallint NOT NULL DEFAULT 1 CHECK (state BETWEEN 1 AND 3),
  account_id text,
  line_id uuid,
  day date,
  changed_at timestamptz,
  PRIMARY KEY (batch_id, number),
  CHECK (num_nonnulls(account_id, line_id, day) = CASE state WHEN 2 THEN 3 ELSE 0 END),
  CHECK ((state = 1) = (changed_at IS NULL))
);

-- What was redeemed or made void stays so.
CREATE FUNCTION billing.refuse_voucher_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'a voucher that is used up or void stays so' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER only_once BEFORE UPDATE ON billing.voucher
  FOR EACH ROW WHEN (OLD.state <> 1) EXECUTE FUNCTION billing.refuse_voucher_change();

-- Quarantined records that the ledger has after all. Of most the ledger itself tells, by the hash of their line; not of
-- whole messages, nor of a provisional record whose call got its final.
CREATE TABLE billing.quarantine_booked (
  quarantine_id bigint PRIMARY KEY REFERENCES billing.usage_quarantine,
  booked_at timestamptz NOT NULL DEFAULT now()
);

GRANT SELECT, INSERT ON billing.voucher_batch, billing.voucher, billing.quarantine_booked TO billing_rw;
GRANT UPDATE (state, account_id, line_id, day, changed_at) ON billing.voucher TO billing_rw;
