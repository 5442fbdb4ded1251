-- Up Migration

-- contract of 0010_replicas: the version before calls sums_fence() alone.
DROP FUNCTION billing.line_fence();
