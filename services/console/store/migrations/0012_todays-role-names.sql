-- Up Migration

-- Today's names, which the version before knows and does not write yet: rows that it writes have the former ones.
UPDATE console.membership SET role = CASE role WHEN 'member' THEN 'developer' ELSE 'viewer' END
WHERE role IN ('member', 'read-only');
UPDATE console.invitation SET role = CASE role WHEN 'member' THEN 'developer' ELSE 'viewer' END
WHERE role IN ('member', 'read-only');
