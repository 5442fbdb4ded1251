-- Up Migration

-- Keys that were deleted 400 days ago, with what is kept of their refused calls: the ledger names a key by its id alone.
-- One of which Redis has not taken the end stays.
CREATE INDEX key_deleted ON auth_quota.key (updated_at) WHERE status = 'deleted';
CREATE FUNCTION auth_quota.forget_keys(wanted text[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  ids text[];
  forgotten bigint;
BEGIN
  SELECT coalesce(array_agg(k.key_id), '{}') INTO ids FROM (
    SELECT key_id FROM auth_quota.key WHERE key_id = ANY (wanted) AND status = 'deleted'
      AND version <= pushed_version AND updated_at < now() - interval '400 days' FOR UPDATE
  ) AS k;
  DELETE FROM auth_quota.refusal_count WHERE key_id = ANY (ids);
  DELETE FROM auth_quota.refused_call WHERE key_id = ANY (ids);
  DELETE FROM auth_quota.key WHERE key_id = ANY (ids);
  GET DIAGNOSTICS forgotten = ROW_COUNT;
  RETURN forgotten;
END
$$;
REVOKE ALL ON FUNCTION auth_quota.forget_keys(text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION auth_quota.forget_keys(text[]) TO auth_quota_rw;
