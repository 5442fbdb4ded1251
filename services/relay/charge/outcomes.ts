import { EndCause, UsageSource } from "#proto/usage/v1/usage_pb.ts";

/**
 * How an answer ended, as far as money asks: all there, cut by anyone, not read on behind a caller who had left, or its
 * relay gone.
 */
export type Ending = "whole" | "cut" | "left" | "relay lost";

/** What is known of an answer when it is charged. */
export type AnswerState = {
  ending: Ending;
  /** Whether any content passed to the caller. */
  hasContent: boolean;
  /**
   * Whether the provider's counts of the answer came, in units that the model has prices for. Counts that it told while
   * the answer ran, and that are below what was sent since, are none.
   */
  hasCounts: boolean;
  /** Whether the provider's count of the input came. */
  hasInputCount: boolean;
};

/** What is charged: by whose counts, or as if the answer had been cut where its last checkpoint was written. */
export type ChargeBasis = UsageSource | "as cut";

export type Outcome = {
  /** In the words of the README. */
  howItEnded: string;
  charged: string;
  /** The states that it is for; what is left out may be either. */
  when: { endings: readonly Ending[] } & Partial<Omit<AnswerState, "ending">>;
  source: ChargeBasis;
};

/**
 * The published rule for what an answer costs, of which exactly one row fits any state (money invariants I2 and I3).
 * Nothing else decides it: meterCall measures what the row says. The README's table of the same rows is compared with
 * this one by a test.
 */
export const outcomes: readonly Outcome[] = [
  {
    howItEnded: "refused, or failed before any content",
    charged: "nothing",
    when: { endings: ["cut", "relay lost"], hasContent: false },
    source: UsageSource.NONE,
  },
  {
    howItEnded: "left by its caller before any content, and not read on to its end; the provider's counts were seen",
    charged: "the provider's counts",
    when: { endings: ["left"], hasContent: false, hasCounts: true },
    source: UsageSource.PROVIDER,
  },
  {
    howItEnded: "left by its caller before any content, only the provider's count of the input was seen",
    charged: "the provider's count of the input",
    when: { endings: ["left"], hasContent: false, hasCounts: false, hasInputCount: true },
    source: UsageSource.PROVIDER_INPUT,
  },
  {
    howItEnded: "left by its caller before any content, no counts were seen",
    charged: "input counted from the request, and what it alone settles (images, characters), flagged as estimated",
    when: { endings: ["left"], hasContent: false, hasCounts: false, hasInputCount: false },
    source: UsageSource.ESTIMATED,
  },
  {
    howItEnded: "whole but empty, the provider told no counts",
    charged: "nothing",
    when: { endings: ["whole"], hasContent: false, hasCounts: false },
    source: UsageSource.NONE,
  },
  {
    howItEnded: "whole, the provider told its counts",
    charged: "the provider's counts",
    when: { endings: ["whole"], hasCounts: true },
    source: UsageSource.PROVIDER,
  },
  {
    howItEnded: "whole, the provider told the count of the input only",
    charged: "the provider's count of the input, output counted from what was sent",
    when: { endings: ["whole"], hasContent: true, hasCounts: false, hasInputCount: true },
    source: UsageSource.PROVIDER_INPUT,
  },
  {
    howItEnded: "whole, the provider told none",
    charged: "input and output counted from what was sent, flagged as estimated",
    when: { endings: ["whole"], hasContent: true, hasCounts: false, hasInputCount: false },
    source: UsageSource.ESTIMATED,
  },
  {
    howItEnded: "cut after content by anyone, the provider's final counts were seen",
    charged: "the provider's counts",
    when: { endings: ["cut", "left"], hasContent: true, hasCounts: true },
    source: UsageSource.PROVIDER,
  },
  {
    howItEnded: "cut after content by anyone, only the provider's count of the input was seen",
    charged: "the provider's count of the input, and the output sent so far",
    when: { endings: ["cut", "left"], hasContent: true, hasCounts: false, hasInputCount: true },
    source: UsageSource.PROVIDER_INPUT,
  },
  {
    howItEnded: "cut after content by anyone, no counts were seen",
    charged: "input counted from the request and the output sent so far, flagged as estimated",
    when: { endings: ["cut", "left"], hasContent: true, hasCounts: false, hasInputCount: false },
    source: UsageSource.ESTIMATED,
  },
  {
    howItEnded: "the relay itself was lost mid-answer",
    charged:
      "what its last checkpoint said, as if cut there: at most 0.25 s behind, 5 s or 0.01 USD if its disk is lost",
    when: { endings: ["relay lost"], hasContent: true },
    source: "as cut",
  },
];

/** Whether a row is for this state. */
export function isFor({ when }: Outcome, state: AnswerState): boolean {
  return (
    when.endings.includes(state.ending) &&
    (when.hasContent ?? state.hasContent) === state.hasContent &&
    (when.hasCounts ?? state.hasCounts) === state.hasCounts &&
    (when.hasInputCount ?? state.hasInputCount) === state.hasInputCount
  );
}

function findSource(state: AnswerState): UsageSource {
  const outcome = outcomes.find((row) => isFor(row, state));
  if (!outcome) throw new Error(`no outcome is for ${JSON.stringify(state)}`);
  return outcome.source === "as cut" ? findSource({ ...state, ending: "cut" }) : outcome.source;
}

const endings: readonly Ending[] = ["whole", "cut", "left", "relay lost"];
const known: UsageSource[] = [];

/** By whose counts an answer is charged. The rows are searched once for each of the few states that there are. */
export function sourceOf(state: AnswerState): UsageSource {
  const flags = (state.hasContent ? 4 : 0) + (state.hasCounts ? 2 : 0) + (state.hasInputCount ? 1 : 0);
  const place = endings.indexOf(state.ending) * 8 + flags;
  return (known[place] ??= findSource(state));
}

const failuresOfUpstreams: readonly EndCause[] = [
  EndCause.UPSTREAM_ERROR,
  EndCause.UPSTREAM_CUT,
  EndCause.UPSTREAM_TIMEOUT,
];

/** The ending that a cause stands for; orphan: the caller had left while an upstream was at work. */
export function endingOf(endCause: EndCause, isOrphan: boolean): Ending {
  if (endCause === EndCause.COMPLETE) return "whole";
  if (isOrphan && !failuresOfUpstreams.includes(endCause)) return "left";
  return endCause === EndCause.RELAY_LOST ? "relay lost" : "cut";
}

/** The cause on the bill: that of an orphan is its caller, unless its upstream failed or its relay was lost. */
export function causeOnBill(endCause: EndCause, isOrphan: boolean): EndCause {
  const isOwn = failuresOfUpstreams.includes(endCause) || endCause === EndCause.RELAY_LOST;
  return isOrphan && !isOwn ? EndCause.CLIENT_GONE : endCause;
}
