import type { Role } from "../permissions.ts";

// Names of roles before 0010_role-names. The version before this one still writes them beside it; once nobody runs that
// version any more, no row has them.
const formerNames: Partial<Record<Role, string>> = { developer: "member", viewer: "read-only" };

/** Roles as rows may have them. */
export const storedRoles = (roles: readonly Role[]): string[] =>
  roles.flatMap((role) => [role, formerNames[role] ?? []].flat());

/** The role in a column, by today's name. */
export const roleIn = (column: string): string =>
  `CASE ${column} WHEN 'member' THEN 'developer' WHEN 'read-only' THEN 'viewer' ELSE ${column} END AS role`;
