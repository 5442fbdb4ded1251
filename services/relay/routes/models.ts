import type { IncomingHttpHeaders } from "node:http";
import type { Model } from "../catalog-models.ts";
import { readVersion } from "../read.ts";

/** API spec, Endpoints: the Format B list when both `x-api-key` and `provider-version` are present. */
export function wantsFormatB(headers: IncomingHttpHeaders): boolean {
  return headers["x-api-key"] !== undefined && readVersion(headers) !== undefined;
}

/** Format A list of models. */
export function listFormatA(models: Model[]): object {
  const data = models.map(({ id, createdAtSeconds, ownedBy }) => ({
    id,
    object: "model",
    created: createdAtSeconds,
    owned_by: ownedBy,
  }));
  return { object: "list", data };
}

/** Format B list of models, all on one page. */
export function listFormatB(models: Model[]): object {
  const data = models.map(({ id, createdAtSeconds, contextTokens, maxOutputTokens }) => ({
    type: "model",
    id,
    display_name: id,
    created_at: new Date(createdAtSeconds * 1_000).toISOString().replace(".000", ""),
    max_input_tokens: contextTokens,
    max_tokens: maxOutputTokens,
  }));
  return { data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
}
