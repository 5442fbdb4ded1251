import type { Bar } from "../bars.ts";
import type { MoneyOutcome, MoneyPlan } from "../money-outcome.ts";
import { ratioOf, summarizeVariants, toWindow, type VariantWindow } from "../variants.ts";
import { bookByBisection, bookFill, startBookingWorld, type BookingResult, type BookingWorld } from "./book-window.ts";
import { makeFill } from "./fill.ts";

const names = {
  naive: "a transaction per event, 100 accounts",
  naiveHot: "a transaction per event, 1 account",
  spread: "billing, 100 accounts",
  hot: "billing, 1 account",
} as const;

const minEventsPerSecond = 15_000;
const minHotToSpread = 0.5;
const manyAccounts = 100;
const warmupEvents = 25_000;
const measuredEvents = 75_000;
const naiveMs = 2_500;

/**
 * Measures events booked per second from a stream that is full, for one hot account and for 100, beside one transaction
 * per event; the four take turns, in the other order every second round.
 */
export async function measureBooking({ rounds, say }: MoneyPlan): Promise<MoneyOutcome> {
  await using world = await startBookingWorld();
  const variants = variantsOf(world);
  const windows: VariantWindow[] = [];
  const complaints: string[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    say(`booking: round ${round} of ${rounds}`);
    for (const { variant, measure } of round % 2 === 1 ? variants : variants.toReversed()) {
      const booked = await measure();
      windows.push(toWindow(round, variant, booked.done, booked.metered));
      complaints.push(...booked.complaints.map((complaint) => `${variant}, round ${round}: ${complaint}`));
    }
  }
  return {
    title: "Booking events",
    unit: "events",
    windows,
    variants: summarizeVariants(windows, names.naive),
    bars: barsOf(windows),
    complaints,
  };
}

type MeasuredVariant = { variant: string; measure: () => Promise<BookingResult> };

function variantsOf(world: BookingWorld): MeasuredVariant[] {
  const spread = makeFill(warmupEvents + measuredEvents, manyAccounts);
  const hot = makeFill(warmupEvents + measuredEvents, 1);
  return [
    { variant: names.naive, measure: () => bookByBisection(world, manyAccounts, naiveMs) },
    { variant: names.spread, measure: () => bookFill(world, spread, warmupEvents) },
    { variant: names.naiveHot, measure: () => bookByBisection(world, 1, naiveMs) },
    { variant: names.hot, measure: () => bookFill(world, hot, warmupEvents) },
  ];
}

function barsOf(windows: VariantWindow[]): Bar[] {
  const spread = summarizeVariants(windows, names.naive).find(({ variant }) => variant === names.spread);
  if (!spread) return [];
  return [
    { what: "billing: events/s, 100 accounts", min: minEventsPerSecond, measured: spread.perSecond },
    {
      what: "billing: 1 account to 100 accounts",
      min: minHotToSpread,
      measured: ratioOf(windows, names.hot, names.spread),
    },
  ];
}
