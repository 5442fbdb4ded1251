import type { Catalog, CheckCatalogResponse } from "#proto/relay/v1/relay_pb.ts";
import { baseVersionOf, priceTextsOf } from "#shared/catalog/price-texts.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { actorOf, auditAround, type AuditAction } from "../../audit-log.ts";
import type { Deps } from "../../deps.ts";
import type { SignedInRequest } from "../../html/route.ts";
import { proveAgain } from "../../sign-in/prove-again.ts";

/** A catalog that a relay has checked, to be applied in the place of version `base`. */
export type CheckedCatalog = { text: string; verdict: CheckCatalogResponse; base: bigint; note: string };

/** Whether a relay would take it. */
export const isUsable = ({ problems, unsetVariables, catalog }: CheckCatalogResponse): boolean =>
  problems.length === 0 && unsetVariables.length === 0 && catalog !== undefined;

/** The version that a change is made from; undefined: the file is followed, or relays are about to take another one. */
export async function readBase({ authQuota }: Deps, inForce: Catalog): Promise<bigint | undefined> {
  if (!inForce.isStored) return undefined;
  const { applied } = await authQuota.listCatalogs({});
  return baseVersionOf(inForce, applied[0]?.version ?? 0n);
}

/**
 * Applies it in the name of who is signed in, who must prove it again: a session that was left open or stolen must not
 * change prices, nor where calls go. Tells the version, or notes in the form why nothing was applied.
 */
export async function applyChecked(
  deps: Deps,
  request: SignedInRequest,
  action: AuditAction,
  { text, verdict, base, note }: CheckedCatalog,
): Promise<bigint | undefined> {
  const { form } = request;
  const { catalog } = verdict;
  if (!catalog || !isUsable(verdict)) return form.refuse("note", "Relays would refuse this catalog.");
  const provenBy = await proveAgain(deps, request);
  if (provenBy === undefined) return undefined;
  const who = actorOf(request);
  const event = { action, target: "the catalog", before: { version: String(base) }, after: { note, provenBy } };
  try {
    return await auditAround(deps, who, event, async () => {
      const prices = priceTextsOf(catalog);
      const asked = { content: text, baseVersion: base, author: who.email ?? "", note, prices };
      const { version } = await deps.authQuota.applyCatalog(asked);
      const after = { version: String(version), contentHash: catalog.contentHash, note, provenBy };
      return { result: version, after };
    });
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "failed_precondition") throw error;
    return form.refuse("note", `Nothing was applied: ${error.message}.`);
  }
}
