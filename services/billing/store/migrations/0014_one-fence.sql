-- Up Migration

-- contract of 0010_replicas
-- The version before calls sums_fence() alone.
DROP FUNCTION billing.line_fence();
