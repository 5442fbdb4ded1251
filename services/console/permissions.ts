/** What a person may be in an account. */
export const memberRoles = ["owner", "admin", "developer", "billing", "viewer"] as const;

export type MemberRole = (typeof memberRoles)[number];

/** What may be given to whoever an issuer says is of a domain: neither a role that lets people in, nor one above it. */
export const domainRoles = ["viewer", "billing", "developer"] as const satisfies MemberRole[];

export type DomainRole = (typeof domainRoles)[number];

/** An operator runs the installation; everybody else is somebody in single accounts. */
export type Role = MemberRole | "operator";

const everybody = [...memberRoles, "operator"] as const;

/**
 * Who may do what: the one place where it is said. Actions on an account count for the role in that very account;
 * operators have theirs in all. Operators cannot make keys: they would see a secret that spends another's money.
 */
export const permissions = {
  "overview.view": everybody,
  "keys.view": everybody,
  "keys.create": ["owner", "admin", "developer"],
  "keys.change": ["owner", "admin", "developer", "operator"],
  "keys.delete": ["owner", "admin", "developer"],
  "usage.view": everybody,
  "ledger.view": everybody,
  "videos.view": everybody,
  "models.view": everybody,
  "playground.use": ["owner", "admin", "developer"],
  "top-ups.make": ["owner", "admin", "developer", "billing"],
  "auto-top-ups.manage": ["owner", "admin", "billing"],
  "budget.view": everybody,
  "budget.change": ["owner", "admin", "billing", "operator"],
  "alerts.view": everybody,
  "alerts.manage": ["owner", "admin", "billing"],
  "members.view": everybody,
  "members.manage": ["owner", "admin", "operator"],
  "domains.manage": ["owner"],
  "account-audit.view": ["owner", "admin", "operator"],
  "business.view": ["operator"],
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

/** Whether they may make somebody an owner, or change who is one: admins may not take an account over. */
export const mayManageOwners = (roles: readonly Role[]): boolean =>
  roles.some((role) => role === "owner" || role === "operator");
