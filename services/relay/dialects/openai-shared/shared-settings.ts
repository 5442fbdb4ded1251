import type { Conversation, Loss, SharedSetting, Target } from "../conversation.ts";
import { isGiven } from "../dialect.ts";

// Settings that chat and Responses have in common by name and meaning, and no other format has.

const names: Record<SharedSetting, string> = {
  promptCacheKey: "prompt_cache_key",
  promptCacheRetention: "prompt_cache_retention",
  promptCacheOptions: "prompt_cache_options",
  metadata: "metadata",
  serviceTier: "service_tier",
};

const settings = Object.entries(names) as [SharedSetting, string][];

/** Fields that are read here. */
export const sharedFields = settings.map(([, field]) => field);

// Values that ask for what happens anyway.
const isDefault = (field: string, value: unknown): boolean => field === "service_tier" && value === "auto";

// What else a format's options hold names what its provider has stored.
const cacheOptions = new Set(["mode", "ttl"]);

function readOptions(options: unknown, dropped: Set<string>): object | undefined {
  if (typeof options !== "object" || options === null) return undefined;
  const entries = Object.entries(options).filter(([, value]) => isGiven(value));
  for (const [name] of entries) if (!cacheOptions.has(name)) dropped.add(`prompt_cache_options.${name}`);
  return Object.fromEntries(entries.filter(([name]) => cacheOptions.has(name)));
}

/** Reads the settings that both formats have. */
export function readShared(body: Record<string, unknown>, dropped: Set<string>): Pick<Conversation, "shared"> {
  const shared: NonNullable<Conversation["shared"]> = {};
  for (const [setting, field] of settings) {
    const given = body[field];
    const value = setting === "promptCacheOptions" ? readOptions(given, dropped) : given;
    if (isGiven(value) && !isDefault(field, value)) shared[setting] = value;
  }
  return Object.keys(shared).length > 0 ? { shared } : {};
}

/** Writes them, for a model of OpenAI's own: other servers that speak the formats refuse fields that they lack. */
export function writeShared({ shared }: Conversation, { quirks }: Target, losses: Set<Loss>): Record<string, unknown> {
  const isOwn = !quirks.has("no-custom-tools") && !quirks.has("max-tokens");
  const written: Record<string, unknown> = {};
  for (const [setting, field] of settings) {
    const value = shared?.[setting];
    if (value === undefined) continue;
    if (isOwn) written[field] = value;
    else losses.add(setting);
  }
  return written;
}

/** The caller's names of them, in any format. */
export const sharedLossNames: Record<SharedSetting, string> = names;
