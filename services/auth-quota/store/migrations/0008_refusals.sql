-- Up Migration

-- Calls that relays refused before they held money: counts per key, minute, reason and status for a week, and the last
-- hundred calls of each key. Nothing depends on them.
CREATE TABLE auth_quota.refusal_count (
  key_id text NOT NULL REFERENCES auth_quota.key,
  minute timestamptz NOT NULL,
  reason text NOT NULL,
  status integer NOT NULL,
  refusals bigint NOT NULL,
  PRIMARY KEY (key_id, minute, reason, status)
);
CREATE INDEX refusal_count_minute ON auth_quota.refusal_count (minute);

CREATE TABLE auth_quota.refused_call (
  key_id text NOT NULL REFERENCES auth_quota.key,
  rid uuid NOT NULL,
  reason text NOT NULL,
  status integer NOT NULL,
  endpoint text NOT NULL,
  model text NOT NULL,
  detail text NOT NULL,
  PRIMARY KEY (key_id, rid)
);

GRANT SELECT, INSERT, DELETE, UPDATE (refusals) ON auth_quota.refusal_count TO auth_quota_rw;
GRANT SELECT, INSERT, DELETE ON auth_quota.refused_call TO auth_quota_rw;
