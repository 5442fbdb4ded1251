-- Up Migration

-- What a payment provider has said of money that goes back, each message once. It may come before the payment is known
-- to be paid. amount_nanos: of a refunded charge what was refunded in all, else of this refund or dispute.
CREATE TABLE console.reversal (
  event_id text PRIMARY KEY CHECK (char_length(event_id) BETWEEN 1 AND 255),
  payment_id text NOT NULL,
  what text NOT NULL CHECK (what IN ('refunded', 'refund-failed', 'disputed', 'dispute-ended')),
  object_id text NOT NULL,
  amount_nanos bigint NOT NULL CHECK (amount_nanos >= 0),
  created_s bigint NOT NULL,
  received_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX reversal_payment ON console.reversal (payment_id);

-- The corrections of an account that follow from them, numbered for each payment: written down before billing is asked,
-- so that one whose answer is lost is asked for again with the same amount, under the same id.
CREATE TABLE console.reversal_correction (
  payment_id text NOT NULL,
  number integer NOT NULL CHECK (number > 0),
  amount_nanos bigint NOT NULL CHECK (amount_nanos <> 0),
  created_at timestamptz NOT NULL DEFAULT now(),
  booked_at timestamptz,
  PRIMARY KEY (payment_id, number)
);
CREATE INDEX reversal_correction_unbooked ON console.reversal_correction (created_at) WHERE booked_at IS NULL;

GRANT SELECT, INSERT ON console.reversal, console.reversal_correction TO console_rw;
GRANT UPDATE (booked_at) ON console.reversal_correction TO console_rw;
