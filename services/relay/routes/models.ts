import type { IncomingHttpHeaders } from "node:http";
import type { Model } from "../catalog-models.ts";
import { readVersion } from "../read.ts";

/** API spec, Endpoints: the Format B list when both `x-api-key` and `provider-version` are present. */
export function wantsFormatB(headers: IncomingHttpHeaders): boolean {
  return headers["x-api-key"] !== undefined && readVersion(headers) !== undefined;
}

/** A model as the Format A list shows it. */
export function entryFormatA({ id, createdAtSeconds, ownedBy }: Model): object {
  return { id, object: "model", created: createdAtSeconds, owned_by: ownedBy };
}

/** A model as the Format B list shows it. */
export function entryFormatB({ id, createdAtSeconds, contextTokens, maxOutputTokens }: Model): object {
  return {
    type: "model",
    id,
    display_name: id,
    created_at: new Date(createdAtSeconds * 1_000).toISOString().replace(".000", ""),
    max_input_tokens: contextTokens,
    max_tokens: maxOutputTokens,
  };
}

/** Format A list of models. */
export function listFormatA(models: Model[]): object {
  return { object: "list", data: models.map(entryFormatA) };
}

/** Format B list of models, all on one page. */
export function listFormatB(models: Model[]): object {
  const [first, last] = [models[0], models.at(-1)];
  return { data: models.map(entryFormatB), has_more: false, first_id: first?.id ?? null, last_id: last?.id ?? null };
}
