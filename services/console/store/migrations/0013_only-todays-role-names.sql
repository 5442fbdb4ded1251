-- Up Migration

-- contract of 0012_todays-role-names
-- The version before 0012 may have written former names beside it.
UPDATE console.membership SET role = CASE role WHEN 'member' THEN 'developer' ELSE 'viewer' END
WHERE role IN ('member', 'read-only');
UPDATE console.invitation SET role = CASE role WHEN 'member' THEN 'developer' ELSE 'viewer' END
WHERE role IN ('member', 'read-only');
ALTER TABLE console.membership DROP CONSTRAINT membership_role_check,
  ADD CHECK (role IN ('owner', 'admin', 'developer', 'billing', 'viewer'));
ALTER TABLE console.invitation DROP CONSTRAINT invitation_role_check,
  ADD CHECK (role IN ('owner', 'admin', 'developer', 'billing', 'viewer', 'operator'));
