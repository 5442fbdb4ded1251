/** What a person may be in an account. */
export const memberRoles = ["owner", "member", "read-only"] as const;

export type MemberRole = (typeof memberRoles)[number];

/** An operator runs the installation; everybody else is somebody in single accounts. */
export type Role = MemberRole | "operator";

/**
 * Who may do what: the one place where it is said. Actions on an account count for the role in that very account;
 * operators have theirs in all. Operators cannot make keys: they would see a secret that spends another's money.
 */
export const permissions = {
  "overview.view": ["owner", "member", "read-only", "operator"],
  "keys.view": ["owner", "member", "read-only", "operator"],
  "keys.create": ["owner", "member"],
  "keys.change": ["owner", "member", "operator"],
  "keys.delete": ["owner", "member"],
  "usage.view": ["owner", "member", "read-only", "operator"],
  "ledger.view": ["owner", "member", "read-only", "operator"],
  "videos.view": ["owner", "member", "read-only", "operator"],
  "models.view": ["owner", "member", "read-only", "operator"],
  "playground.use": ["owner", "member"],
  "top-ups.make": ["owner", "member"],
  "auto-top-ups.manage": ["owner"],
  "budget.view": ["owner", "member", "read-only", "operator"],
  "budget.change": ["owner", "operator"],
  "alerts.view": ["owner", "member", "read-only", "operator"],
  "alerts.manage": ["owner"],
  "members.view": ["owner", "member", "read-only", "operator"],
  "members.manage": ["owner", "operator"],
  "accounts.manage": ["operator"],
  "accounts.money": ["operator"],
  "search.use": ["operator"],
  "vouchers.manage": ["operator"],
  "installation.view": ["operator"],
  "installation.manage": ["operator"],
  "people.manage": ["operator"],
  "audit.view": ["operator"],
} as const satisfies Record<string, readonly Role[]>;

export type Action = keyof typeof permissions;

/** Whether one of the roles may do it. */
export function may(roles: readonly Role[], action: Action): boolean {
  const allowed: readonly Role[] = permissions[action];
  return roles.some((role) => allowed.includes(role));
}
