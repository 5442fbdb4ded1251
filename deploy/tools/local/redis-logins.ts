import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Passwords } from "./state.ts";

const usersFile = join(import.meta.dirname, "../../stores/redis-users.conf");

/** Who may do everything: whoever has started the server. */
const operator = "operator";

type RedisSettings = { users: string; operator: { name: string; password: string } };

/** Settings of a Redis of one's own: the users of deploy/stores/, with their passwords, and the operator. */
export function redisSettings({ redisOperator, redisAuthQuota }: Passwords): RedisSettings {
  const users = readFileSync(usersFile, "utf8").replaceAll("$REDIS_AUTH_QUOTA_PASSWORD", redisAuthQuota);
  return {
    users: `${users}user ${operator} reset on >${redisOperator} ~* &* +@all\n`,
    operator: { name: operator, password: redisOperator },
  };
}

const withLogin = (url: string, user: string, password: string): string => {
  const address = new URL(url);
  return `redis://${user}:${password}@${address.host}`;
};

/** The addresses by which auth-quota logs in, and by which whoever started the server does. */
export const redisLogins = (url: string, passwords: Passwords): { operator: string; authQuota: string } => ({
  operator: withLogin(url, operator, passwords.redisOperator),
  authQuota: withLogin(url, "auth-quota", passwords.redisAuthQuota),
});
