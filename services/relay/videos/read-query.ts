import { CallFailure } from "../failures.ts";

const refused = (detail: string): CallFailure => new CallFailure({ name: "field_invalid", detail });

/** The query parameters of a request target. */
export function queryOf(target: string): URLSearchParams {
  return new URLSearchParams(/\?([^#]*)/.exec(target)?.[1] ?? "");
}

/** The one value of a parameter; undefined when it is not there. Throws `field_invalid` when it stands twice. */
function valueOf(query: URLSearchParams, name: string): string | undefined {
  const [value, ...others] = query.getAll(name);
  if (others.length > 0) throw refused(`query parameter ${name} stands twice`);
  return value;
}

const variants = ["video", "thumbnail", "spritesheet"];

/** Which file of a video is asked for. Throws `field_invalid`. */
export function readVariant(query: URLSearchParams): string {
  const variant = valueOf(query, "variant") ?? "video";
  if (variants.includes(variant)) return variant;
  throw refused("query parameter variant must be video, thumbnail or spritesheet");
}

/** Which page of the list is asked for; "" as the last id of the page before: the first page. */
export type ListQuery = { afterTaskId: string; limit: number; isAscending: boolean };

const defaultLimit = 20;
const maxLimit = 100;

/** Reads the parameters of a list, as the OpenAI API has them. Throws `field_invalid`. */
export function readListQuery(query: URLSearchParams): ListQuery {
  const limit = valueOf(query, "limit") ?? String(defaultLimit);
  if (!/^[1-9]\d{0,2}$/.test(limit) || Number(limit) > maxLimit)
    throw refused(`query parameter limit must be a number from 1 to ${maxLimit}`);
  const order = valueOf(query, "order") ?? "desc";
  if (order !== "asc" && order !== "desc") throw refused("query parameter order must be asc or desc");
  return { afterTaskId: valueOf(query, "after") ?? "", limit: Number(limit), isAscending: order === "asc" };
}
