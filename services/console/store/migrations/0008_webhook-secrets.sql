-- Up Migration

-- The secret before the present one signs messages, too, until a time: a receiver has that long to take the new one.
ALTER TABLE console.webhook
  ADD COLUMN previous_secret bytea,
  ADD COLUMN previous_until timestamptz,
  ADD CHECK ((previous_secret IS NULL) = (previous_until IS NULL));
GRANT UPDATE (sealed_secret, previous_secret, previous_until) ON console.webhook TO console_rw;
