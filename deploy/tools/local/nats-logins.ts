import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Passwords } from "./state.ts";

/** The services that log in to NATS. */
export type NatsUser = "relay" | "billing" | "video-task";

export type NatsUrls = Record<NatsUser, string>;

const usersFile = join(import.meta.dirname, "../../stores/nats-users.conf");

const passwordsOf = ({ natsRelay, natsBilling, natsVideoTask }: Passwords): Record<NatsUser, string> => ({
  relay: natsRelay,
  billing: natsBilling,
  "video-task": natsVideoTask,
});

/**
 * Settings of a NATS server of one's own: the users of deploy/stores/, with their passwords, and one with all rights
 * for whoever has started it.
 */
export function natsSettings(passwords: Passwords): string {
  let users = readFileSync(usersFile, "utf8");
  for (const [user, password] of Object.entries(passwordsOf(passwords))) {
    users = users.replaceAll(`$NATS_${user.toUpperCase().replace("-", "_")}_PASSWORD`, JSON.stringify(password));
  }
  const operator = `{ user: operator, password: ${JSON.stringify(passwords.natsOperator)} }`;
  return users.replace("users = [", `users = [\n    ${operator}`);
}

const withLogin = (url: string, user: string, password: string): string => {
  const address = new URL(url);
  return `nats://${user}:${password}@${address.host}`;
};

/** The addresses by which each service logs in, and by which whoever started the server does. */
export function natsLogins(url: string, passwords: Passwords): { operator: string; services: NatsUrls } {
  const own = Object.entries(passwordsOf(passwords)).map(([user, password]) => [user, withLogin(url, user, password)]);
  return {
    operator: withLogin(url, "operator", passwords.natsOperator),
    services: Object.fromEntries(own) as NatsUrls,
  };
}

/** One address for all, as of a server that runs elsewhere. */
export const sameForAll = (url: string): NatsUrls => ({ relay: url, billing: url, "video-task": url });
