-- Up Migration

-- Who let whom in, and who made a link for whom, is in the audit log for ever; the links themselves are kept for a year
-- and some days after their end.
CREATE FUNCTION console.forget_links(most integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH invitations AS (
    DELETE FROM console.invitation WHERE invitation_id IN (
      SELECT invitation_id FROM console.invitation WHERE expires_at < now() - interval '400 days' LIMIT most
    ) RETURNING 1
  ), resets AS (
    DELETE FROM console.password_reset WHERE reset_id IN (
      SELECT reset_id FROM console.password_reset WHERE expires_at < now() - interval '400 days' LIMIT most
    ) RETURNING 1
  )
  SELECT (SELECT count(*) FROM invitations) + (SELECT count(*) FROM resets)
$$;
REVOKE ALL ON FUNCTION console.forget_links(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION console.forget_links(integer) TO console_rw;
