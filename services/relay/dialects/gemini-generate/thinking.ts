import type { Conversation, Effort, Loss } from "../conversation.ts";
import type { Traits } from "./models.ts";

// Google's own table for callers of its chat endpoint.
const budgets: Partial<Record<Effort, number>> = { minimal: 1_024, low: 1_024, medium: 8_192, high: 24_576 };

function levelOf(effort: Effort, { hasMinimalLevel, hasMediumLevel }: Traits): string {
  if (effort === "none" || effort === "minimal") return hasMinimalLevel ? "MINIMAL" : "LOW";
  if (effort === "low") return "LOW";
  return effort === "medium" && hasMediumLevel ? "MEDIUM" : "HIGH";
}

/** The effort that a budget stands for, by the same table. */
function effortOf(budgetTokens: number): Effort {
  if (budgetTokens <= 0) return "none";
  if (budgetTokens <= 1_024) return "low";
  return budgetTokens <= 8_192 ? "medium" : "high";
}

function budgetOf(effort: Effort, { leastBudget, greatestBudget }: Traits): number {
  return effort === "none" ? leastBudget : (budgets[effort] ?? greatestBudget);
}

/** Thoughts count against the cap of the answer, so they get less than it: the cap is the caller's and stays. */
function withinCap(budget: number, { leastBudget, greatestBudget }: Traits, cap: number | undefined): number {
  const most = cap === undefined ? greatestBudget : Math.min(greatestBudget, cap - 1);
  return Math.max(leastBudget, Math.min(budget, most));
}

/** `thinkingConfig`; a level and a budget together are refused, so it has one of them. */
export function writeThinking(
  { reasoning = {}, maxOutputTokens }: Conversation,
  traits: Traits,
  losses: Set<Loss>,
): Record<string, unknown> | undefined {
  const { effort, budgetTokens, isShown } = reasoning;
  const isAsked = effort !== undefined || budgetTokens !== undefined;
  if (!isAsked && !isShown) return undefined;
  if (traits.thinksBy === "nothing") {
    if (effort !== "none" && budgetTokens !== 0) losses.add("reasoning");
    return undefined;
  }
  const shown = isShown && effort !== "none" ? { includeThoughts: true } : {};
  if (!isAsked) return shown;
  if (traits.thinksBy === "level") {
    return { thinkingLevel: levelOf(effort ?? effortOf(budgetTokens ?? 0), traits), ...shown };
  }
  const budget = budgetTokens ?? budgetOf(effort ?? "none", traits);
  return { thinkingBudget: withinCap(budget, traits, maxOutputTokens), ...shown };
}
