import { query } from "#shared/testing/postgres.ts";
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
  const login = async (user: string, group: string, password: string): Promise<string> => {
    // `password` is hexadecimal and the names are ours: nothing to escape.
    await query(
      ownerUrl,
      `do $$ begin
         if not exists (select from pg_roles where rolname = '${user}') then create role ${user} login; end if;
       end $$;
       alter role ${user} password '${password}';
       grant ${group} to ${user}`,
    );
    const own = new URL(ownerUrl);
    own.username = user;
    own.password = password;
    return own.href;
  };
  return {
    authQuota: await login("auth_quota_local", "auth_quota_rw", state.passwords.authQuota),
    billing: await login("billing_local", "billing_rw", state.passwords.billing),
    videoTask: await login("video_task_local", "video_task_rw", state.passwords.videoTask),
    console: await login("console_local", "console_rw", state.passwords.console),
  };
}
