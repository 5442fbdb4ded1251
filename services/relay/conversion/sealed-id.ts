import { createHmac } from "node:crypto";
import type { Binding } from "../threads/messages.ts";

// Behind the prefix by which clients know what an id is of: resp_relay.1.<mac>.<the rest of the provider's id>
const mark = "relay.1.";
const macBytes = 16;
const macCharacters = 22;
const prefixPattern = /^[a-z]{1,16}_/;
const sealedPattern = /^([a-z]{1,16}_)?relay\.1\.([\w-]{22})\.(.+)$/;
// Others would stand otherwise in JSON; no provider makes such ids.
const plainId = /^[\w.:/=+-]{1,256}$/;

function macOf(id: string, { key, account, upstream }: Binding): string {
  const mac = createHmac("sha256", key).update(`${account}\0${upstream}\0${id}`).digest();
  return mac.subarray(0, macBytes).toString("base64url").slice(0, macCharacters);
}

/** An id of a provider's state as the account that made it gets it; as it is where it is none that can be sealed. */
export function sealId(id: string, binding: Binding): string {
  if (!plainId.test(id) || sealedPattern.test(id)) return id;
  const prefix = prefixPattern.exec(id)?.[0] ?? "";
  return `${prefix}${mark}${macOf(id, binding)}.${id.slice(prefix.length)}`;
}

/** The provider's id; undefined for one that was not sealed so. Reveals nothing by its time: a MAC is not guessed. */
export function openId(sealed: string, binding: Binding): string | undefined {
  const [, prefix = "", , rest = ""] = sealedPattern.exec(sealed) ?? [];
  const id = prefix + rest;
  return id !== "" && sealId(id, binding) === sealed ? id : undefined;
}
