-- Up Migration

-- Units of tools that providers run, and the cost of what other models ran of a call. Added to the ledger without
-- rewriting it: lines from before have NULL.
ALTER TABLE billing.ledger_line
  ADD COLUMN web_searches bigint,
  ADD COLUMN web_fetches bigint,
  ADD COLUMN file_searches bigint,
  ADD COLUMN code_sessions bigint,
  ADD COLUMN search_sources bigint,
  ADD COLUMN other_models_nanos bigint;
