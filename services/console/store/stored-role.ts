import type { Role } from "../permissions.ts";

// Rows have the names that roles had before 0010_role-names, which the version before this one reads and writes beside
// it. Once nobody runs that version any more, rows may have today's.
const formerNames = { developer: "member", viewer: "read-only" } as const;

/** A role as rows have it. */
export const storedRole = (role: Role): string =>
  role === "developer" || role === "viewer" ? formerNames[role] : role;

/** Roles as rows may have them. */
export const storedRoles = (roles: readonly Role[]): string[] => [...new Set([...roles, ...roles.map(storedRole)])];

/** The role in a column, by today's name. */
export const roleIn = (column: string): string =>
  `CASE ${column} WHEN 'member' THEN 'developer' WHEN 'read-only' THEN 'viewer' ELSE ${column} END AS role`;
