-- Up Migration

-- Members are called developers and read-only members viewers. Rows may have either name: the version before knows the
-- former ones alone, so this one still writes those.
ALTER TABLE console.membership DROP CONSTRAINT membership_role_check,
  ADD CHECK (role IN ('owner', 'admin', 'member', 'developer', 'billing', 'read-only', 'viewer'));
ALTER TABLE console.invitation DROP CONSTRAINT invitation_role_check,
  ADD CHECK (role IN ('owner', 'admin', 'member', 'developer', 'billing', 'read-only', 'viewer', 'operator'));
