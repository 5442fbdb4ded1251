import type { Bar } from "../bars.ts";
import type { MoneyOutcome, MoneyPlan } from "../money-outcome.ts";
import { ratioOf, ratioOfCpu, summarizeVariants, toWindow, type VariantWindow } from "../variants.ts";
import { bookByBisection, bookFill, startBookingWorld, type BookingResult, type BookingWorld } from "./book-window.ts";
import { makeFill, type Fill } from "./fill.ts";

const names = {
  naive: "a transaction per event, 100 accounts",
  naiveHot: "a transaction per event, 1 account",
  spread: "billing, 100 accounts",
  hot: "billing, 1 account",
  replicas: "three billings, 100 accounts",
} as const;

const minEventsPerSecond = 15_000;
const minHotToSpread = 0.5;
// Three times the CPU then books 2.4 times the events.
const maxCpuOfReplicas = 3 / 2.4;
const manyAccounts = 100;
const warmupEvents = 25_000;
const measuredEvents = 75_000;
const naiveMs = 2_500;

/**
 * Measures events booked per second from a stream that is full, for one hot account and for 100, beside one transaction
 * per event; the ways take turns, in the other order every second round.
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
  const book = (fill: Fill, replicas: number) => (): Promise<BookingResult> =>
    bookFill(world, { fill, warmupEvents, replicas });
  return [
    { variant: names.naive, measure: () => bookByBisection(world, manyAccounts, naiveMs) },
    { variant: names.spread, measure: book(spread, 1) },
    { variant: names.replicas, measure: book(spread, 3) },
    { variant: names.naiveHot, measure: () => bookByBisection(world, 1, naiveMs) },
    { variant: names.hot, measure: book(hot, 1) },
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
    {
      what: "billing: CPU of an event with three replicas to one, PostgreSQL's included",
      max: maxCpuOfReplicas,
      measured: ratioOfCpu(windows, names.replicas, names.spread),
    },
  ];
}
