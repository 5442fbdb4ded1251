-- Up Migration

-- Catalogs that operators have applied, for relays that follow these and not a file. A version is never changed, but for
-- its text, which is dropped when many newer ones are there; who applied what stays.
CREATE TABLE auth_quota.applied_catalog (
  version bigint PRIMARY KEY CHECK (version > 0),
  hash text NOT NULL,
  content text CHECK (char_length(content) BETWEEN 1 AND 1048576),
  author text NOT NULL CHECK (char_length(author) BETWEEN 1 AND 200),
  via text NOT NULL,
  note text NOT NULL CHECK (char_length(note) <= 500),
  applied_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, UPDATE (content) ON auth_quota.applied_catalog TO auth_quota_rw;

-- The prices of each row of them, so that a version of prices never means others.
CREATE TABLE auth_quota.catalog_price (
  model text NOT NULL,
  price_version text NOT NULL,
  prices text NOT NULL,
  PRIMARY KEY (model, price_version)
);
GRANT SELECT, INSERT ON auth_quota.catalog_price TO auth_quota_rw;
