import type { UsageSum } from "#proto/billing/v1/billing_pb.ts";
import { money } from "./amounts.ts";
import { change, share, withSmall } from "./comparison.ts";
import { figure, leadFigure } from "./controls.ts";
import { html, type Markup } from "./html.ts";
import { count } from "./units.ts";
import { totalOf } from "./usage-figures.ts";

type Period = {
  chargedNanos: bigint;
  calls: bigint;
  failedCalls: bigint;
  tokens: bigint;
  prompt: bigint;
  cached: bigint;
};

/** What sums come to together; `prompt` are input tokens, those of caches included. */
function periodOf(sums: readonly UsageSum[]): Period {
  const period = { ...totalOf(sums), tokens: 0n, prompt: 0n, cached: 0n };
  for (const { usage } of sums) {
    if (!usage) continue;
    const cached = usage.cacheReadTokens;
    const prompt = usage.inputTokens + cached + usage.cacheWrite5mTokens + usage.cacheWrite1hTokens;
    period.cached += cached;
    period.prompt += prompt;
    period.tokens += prompt + usage.outputTokens + usage.reasoningTokens;
  }
  return period;
}

/** The sums of a period beside those of the one before it. */
export function usageSummary(now: readonly UsageSum[], before: readonly UsageSum[]): Markup {
  const [is, was] = [periodOf(now), periodOf(before)];
  // Beside nothing there is nothing to compare with: one word says so instead of five.
  const beside = (value: string | Markup, small: string): string | Markup =>
    was.calls === 0n ? value : withSmall(value, small);
  const rates = (part: "failedCalls" | "cached", of: "calls" | "prompt"): string | Markup =>
    beside(share(is[part], is[of]), `before: ${share(was[part], was[of])}`);
  return html`<dl class="figures-row card">
    ${leadFigure("Charged", withSmall(money(is.chargedNanos), change(is.chargedNanos, was.chargedNanos)))}
    ${figure("Calls", beside(count(is.calls), change(is.calls, was.calls)))}
    ${figure("Tokens", beside(count(is.tokens), change(is.tokens, was.tokens)))}
    ${figure("Failed calls", rates("failedCalls", "calls"))} ${figure("Cache hit rate", rates("cached", "prompt"))}
  </dl>`;
}
