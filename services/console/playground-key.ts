import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { KeyStatus } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { inTransaction } from "#shared/stores/postgres.ts";
import { actorOf, auditAround } from "./audit-log.ts";
import type { Deps } from "./deps.ts";
import { Problem } from "./html/problem.ts";
import type { AccountRequest } from "./html/route.ts";
import { memberRoles, permissions } from "./permissions.ts";
import {
  deletePlaygroundKey,
  findPlaygroundKey,
  keepPlaygroundKey,
  listEndedKeys,
  lockMembership,
  type PlaygroundKey,
} from "./store/playground-keys.ts";

const lifeMs = 24 * 3_600_000;
const maxSwept = 100;

/** What the secret of such a key is sealed for. */
export const sealedFor = (keyId: string): string => `playground key ${keyId}`;
const allowed: readonly string[] = permissions["playground.use"];
const roles = memberRoles.filter((role) => allowed.includes(role));

/** What such a key is called in the list of keys. */
export const playgroundKeyName = (email: string): string => `Playground of ${email}`.slice(0, 200);

/**
 * The secret of the key with which the playground asks for whoever is signed in: made when there is none, and put off
 * for a day when it is used. It leaves this process only for the API.
 */
export function playgroundSecret(deps: Deps, request: AccountRequest): Promise<string> {
  const { pool, authQuota, box, clock } = deps;
  const { accountId, visitor } = request;
  const { personId } = visitor.person;
  return inTransaction(pool, async (db) => {
    if (!(await lockMembership(db, { accountId, personId, roles }))) throw new Problem("not-allowed");
    const known = await findPlaygroundKey(db, { accountId, personId });
    const key = known && (await authQuota.getKeys({ keyIds: [known.keyId] })).keys[0];
    const expiresAt = new Date(clock.nowMs() + lifeMs);
    if (!known || !key || key.status === KeyStatus.DELETED) {
      const { keyId, secret } = await makeKey(deps, request, expiresAt);
      const sealedSecret = box.seal(Buffer.from(secret), sealedFor(keyId));
      await keepPlaygroundKey(db, { accountId, personId, keyId, sealedSecret, expiresAt });
      return secret;
    }
    if (known.expiresAt.getTime() - clock.nowMs() < lifeMs / 2) {
      await authQuota.updateKey({ keyId: known.keyId, expiresAt: timestampFromDate(expiresAt) });
      await keepPlaygroundKey(db, { ...known, expiresAt });
    }
    return box.open(known.sealedSecret, sealedFor(known.keyId)).toString();
  });
}

async function makeKey(deps: Deps, request: AccountRequest, expiresAt: Date) {
  const { accountId, visitor } = request;
  const name = playgroundKeyName(visitor.person.email);
  const after = { name, expiresAt: expiresAt.toISOString() };
  const event = { action: "key.create", accountId, target: name, after } as const;
  return auditAround(deps, actorOf(request), event, async () => {
    const made = await deps.authQuota.createKey({ accountId, name, expiresAt: timestampFromDate(expiresAt) });
    const keyId = made.key?.keyId ?? "";
    return { result: { keyId, secret: made.secret }, target: keyId, after: { keyId, ...after } };
  });
}

/** Deletes keys that have expired, and those of people who may not use the playground of their account any more. */
export async function endPlaygroundKeys(deps: Pick<Deps, "pool" | "authQuota">): Promise<void> {
  for (const key of await listEndedKeys(deps.pool, roles, maxSwept)) await end(deps, key);
}

async function end({ pool, authQuota }: Pick<Deps, "pool" | "authQuota">, key: PlaygroundKey): Promise<void> {
  try {
    await authQuota.deleteKey({ keyId: key.keyId });
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "not_found") throw error;
  }
  await deletePlaygroundKey(pool, key);
}
