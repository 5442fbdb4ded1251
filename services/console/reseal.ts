import { sealedFor as sealedForWebhook } from "./alerts/deliver.ts";
import type { Deps } from "./deps.ts";
import { sealedFor as sealedForPlayground } from "./playground-key.ts";
import { listSealed, replaceSealed, type SealedColumn, type SealedSecret } from "./store/sealed-secrets.ts";

const atOnce = 200;

const about: Record<SealedColumn, (id: string) => string> = {
  totpSecret: (personId) => personId,
  totpPending: (personId) => personId,
  webhookSecret: sealedForWebhook,
  previousWebhookSecret: sealedForWebhook,
  playgroundKey: sealedForPlayground,
};

type ResealDeps = Pick<Deps, "pool" | "box" | "log">;

/**
 * Seals with the first key of SECRETS_KEY_FILE what another of its keys has sealed, and logs how far that is: a key of
 * which nothing is left may leave the file. Rejects when PostgreSQL does not answer.
 */
export async function resealAll(deps: ResealDeps): Promise<void> {
  const counts = { resealed: 0, unreadable: 0 };
  for (const column of Object.keys(about) as SealedColumn[]) {
    let page: SealedSecret[] = [];
    do {
      page = await listSealed(deps.pool, column, { after: page.at(-1)?.id, limit: atOnce });
      for (const secret of page) await reseal(deps, column, secret, counts);
    } while (page.length === atOnce);
  }
  const { resealed, unreadable } = counts;
  if (unreadable > 0) deps.log.error({ unreadable }, "no key of SECRETS_KEY_FILE opens some secrets");
  deps.log.info(
    { resealed },
    resealed > 0
      ? "sealed secrets with the first key of SECRETS_KEY_FILE"
      : "all secrets are sealed with the first key of SECRETS_KEY_FILE",
  );
}

async function reseal(
  { pool, box }: ResealDeps,
  column: SealedColumn,
  secret: SealedSecret,
  counts: { resealed: number; unreadable: number },
): Promise<void> {
  let resealed: Buffer | undefined;
  try {
    resealed = box.reseal(secret.sealed, about[column](secret.id));
  } catch {
    counts.unreadable += 1;
    return;
  }
  if (resealed && (await replaceSealed(pool, column, { ...secret, resealed }))) counts.resealed += 1;
}
