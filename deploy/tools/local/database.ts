import { query } from "#shared/testing/postgres.ts";
import { connect, ensureLogin, replacePassword } from "../migrate/logins.ts";
import type { Schema } from "../migrate/names.ts";
import type { LocalState } from "./state.ts";

/** Makes the database `relay` on a server of our own, when it is not there; returns its URL for the superuser. */
export async function ensureDatabase(serverUrl: string): Promise<string> {
  const found = await query(serverUrl, "select 1 from pg_database where datname = 'relay'");
  if (found.rows.length === 0) await query(serverUrl, "create database relay");
  const own = new URL(serverUrl);
  own.pathname = "/relay";
  return own.href;
}

/** URLs of the database, each as the login of one service. */
export type ServiceLogins = { authQuota: string; billing: string; videoTask: string; console: string };

/** Makes a login for each service, a member of its group role and nothing else; returns the services' URLs. */
export async function ensureLogins(ownerUrl: string, state: LocalState): Promise<ServiceLogins> {
  await using owner = await connect(ownerUrl);
  const login = async (schema: Schema, password: string): Promise<string> => {
    const own = new URL(ownerUrl);
    own.username = `${schema}_local`;
    own.password = password;
    await ensureLogin(owner, { url: own.href, schema });
    // Another data folder, gone since, may have made it with a password of its own.
    await replacePassword(owner, own.href);
    return own.href;
  };
  const { passwords } = state;
  return {
    authQuota: await login("auth_quota", passwords.authQuota),
    billing: await login("billing", passwords.billing),
    videoTask: await login("video_task", passwords.videoTask),
    console: await login("console", passwords.console),
  };
}
