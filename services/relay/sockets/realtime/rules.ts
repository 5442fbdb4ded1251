import type { Relay } from "../../call.ts";
import type { EventRules } from "../../dialects/openai-realtime/client-event.ts";
import type { Model } from "../../catalog/models.ts";
import type { UpstreamSocket } from "./connect-upstream.ts";
import { transcriberAt } from "./transcripts.ts";

type Ruled = { model: Model; upstream: UpstreamSocket; allowedModels: readonly string[] };

/** What the events of a session may do. */
export function rulesOf({ model, upstream, allowedModels }: Ruled, { catalog }: Pick<Relay, "catalog">): EventRules {
  const { route } = upstream;
  return {
    model: model.id,
    upstreamModel: route.model,
    transcriberOf: (name) => {
      if (allowedModels.length > 0 && !allowedModels.includes(name)) return undefined;
      return transcriberAt(catalog.current().models.get(name), route.upstream.name);
    },
    sharesPrompts: model.sharedState?.has("prompt") ?? false,
    sharesVoices: model.sharedState?.has("voice") ?? false,
  };
}
