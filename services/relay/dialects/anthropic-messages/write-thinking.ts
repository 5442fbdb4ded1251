import type { Effort, Loss, Reasoning, Target } from "../conversation.ts";

export type ThinkingSetting = {
  thinking?: { type: "enabled" | "adaptive" | "disabled"; budget_tokens?: number; display?: "summarized" | "omitted" };
  output_config?: { effort: string };
};

type Thinking = { setting: ThinkingSetting; isOn: boolean };

const off: Thinking = { setting: {}, isOn: false };

const smallestBudget = 1024;

/** Share of the output that each effort thinks, in percent (wire formats, effort mapping). */
const shares: Record<Exclude<Effort, "none">, number> = {
  minimal: 2,
  low: 10,
  medium: 30,
  high: 60,
  xhigh: 90,
  max: 95,
};

const adaptiveEfforts: Record<Exclude<Effort, "none">, string> = {
  minimal: "low",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "xhigh",
  max: "max",
};

/** The smallest effort that thinks as much as a budget allows. */
function effortOf(budgetTokens: number, maxOutputTokens: number): string {
  const percent = (budgetTokens / maxOutputTokens) * 100;
  if (percent <= shares.low) return "low";
  if (percent <= shares.medium) return "medium";
  return percent <= shares.high ? "high" : "max";
}

/** Newer models show their thoughts only when they are asked to. */
function writeAdaptive({ effort, budgetTokens, isShown }: Reasoning, { maxOutputTokens }: Target): Thinking {
  const display = isShown === undefined ? {} : { display: isShown ? ("summarized" as const) : ("omitted" as const) };
  const named = effort && effort !== "none" ? adaptiveEfforts[effort] : undefined;
  const asked = named ?? (budgetTokens === undefined ? undefined : effortOf(budgetTokens, maxOutputTokens));
  const thinking = { type: "adaptive", ...display } as const;
  return { setting: { thinking, ...(asked && { output_config: { effort: asked } }) }, isOn: true };
}

/**
 * A budget is at least 1024 and below max_tokens, which is never raised for it (trap 28). An effort takes its share of
 * max_tokens, so that something is left for the answer; a limit too low for any thinking turns it off.
 */
function writeBudget({ effort, budgetTokens, isShown }: Reasoning, target: Target, maxTokens: number): Thinking {
  if (maxTokens <= smallestBudget) return off;
  const share = shares[effort && effort !== "none" ? effort : "medium"];
  const asked = budgetTokens ?? Math.floor((Math.min(maxTokens, target.maxOutputTokens) * share) / 100);
  const budget = Math.min(Math.max(Math.floor(asked), smallestBudget), maxTokens - 1);
  // These models show their thoughts unless they are told not to.
  const display = isShown === false ? { display: "omitted" as const } : {};
  return { setting: { thinking: { type: "enabled", budget_tokens: budget, ...display } }, isOn: true };
}

/**
 * The provider's setting for how hard to think. `canThink`: false when the conversation does not allow it. What was
 * asked and does not happen is a loss.
 */
export function writeThinking(
  reasoning: Reasoning | undefined,
  target: Target,
  { maxTokens, canThink, losses }: { maxTokens: number; canThink: boolean; losses: Set<Loss> },
): Thinking {
  if (!reasoning || !asksForThinking(reasoning)) return off;
  const { quirks } = target;
  if (reasoning.effort === "none") {
    return quirks.has("no-thinking") ? off : { setting: { thinking: { type: "disabled" } }, isOn: false };
  }
  const thinking = quirks.has("no-thinking") ? off : writeEnabled(reasoning, target, maxTokens, canThink);
  if (!thinking.isOn) losses.add("reasoning");
  return thinking;
}

/** Not to see thoughts is no wish for any. */
function asksForThinking({ effort, budgetTokens, isShown }: Reasoning): boolean {
  return effort !== undefined || budgetTokens !== undefined || isShown === true;
}

function writeEnabled(reasoning: Reasoning, target: Target, maxTokens: number, canThink: boolean): Thinking {
  if (target.quirks.has("adaptive-thinking")) return writeAdaptive(reasoning, target);
  return canThink ? writeBudget(reasoning, target, maxTokens) : off;
}
