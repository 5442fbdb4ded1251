-- Up Migration

-- Where these tables are: the server's identity, its timeline, and a table itself. A promotion begins a timeline, a
-- dump is loaded into new tables. A server that does not tell its identity leaves the table.
CREATE FUNCTION auth_quota.database_place() RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  server text := 'unknown';
BEGIN
  BEGIN
    server := (SELECT system_identifier FROM pg_control_system()) || '/' ||
      left(pg_walfile_name(pg_current_wal_lsn()), 8);
  EXCEPTION
    WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN NULL;
  END;
  RETURN server || '/' || 'auth_quota.account'::regclass::oid;
END
$$;
REVOKE ALL ON FUNCTION auth_quota.database_place() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION auth_quota.database_place() TO auth_quota_rw;

-- What was last known of this database from outside of it, and how often it was found to be another.
ALTER TABLE auth_quota.hot_store
  ADD COLUMN place text,
  ADD COLUMN ledger_epoch integer NOT NULL DEFAULT 0,
  ADD COLUMN restores integer NOT NULL DEFAULT 0;
