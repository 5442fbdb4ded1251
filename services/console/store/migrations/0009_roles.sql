-- Up Migration

ALTER TABLE console.membership DROP CONSTRAINT membership_role_check,
  ADD CHECK (role IN ('owner', 'admin', 'member', 'billing', 'read-only'));
ALTER TABLE console.invitation DROP CONSTRAINT invitation_role_check,
  ADD CHECK (role IN ('owner', 'admin', 'member', 'billing', 'read-only', 'operator'));
