import type { Bar } from "../bars.ts";
import type { MoneyOutcome, MoneyPlan } from "../money-outcome.ts";
import { ratioOf, summarizeWays, toWindow, type WayWindow } from "../ways.ts";
import { bookApart, bookFill, startBookingWorld, type Booked, type BookingWorld } from "./book-window.ts";
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
  const ways = waysOf(world);
  const windows: WayWindow[] = [];
  const complaints: string[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    say(`booking: round ${round} of ${rounds}`);
    for (const { way, measure } of round % 2 === 1 ? ways : ways.toReversed()) {
      const booked = await measure();
      windows.push(toWindow(round, way, booked.done, booked.metered));
      complaints.push(...booked.complaints.map((complaint) => `${way}, round ${round}: ${complaint}`));
    }
  }
  return {
    title: "Booking events",
    unit: "events",
    windows,
    ways: summarizeWays(windows, names.naive),
    bars: barsOf(windows),
    complaints,
  };
}

type Measured = { way: string; measure: () => Promise<Booked> };

function waysOf(world: BookingWorld): Measured[] {
  const spread = makeFill(warmupEvents + measuredEvents, manyAccounts);
  const hot = makeFill(warmupEvents + measuredEvents, 1);
  return [
    { way: names.naive, measure: () => bookApart(world, manyAccounts, naiveMs) },
    { way: names.spread, measure: () => bookFill(world, spread, warmupEvents) },
    { way: names.naiveHot, measure: () => bookApart(world, 1, naiveMs) },
    { way: names.hot, measure: () => bookFill(world, hot, warmupEvents) },
  ];
}

function barsOf(windows: WayWindow[]): Bar[] {
  const spread = summarizeWays(windows, names.naive).find(({ way }) => way === names.spread);
  if (!spread) return [];
  return [
    { what: "billing: events/s, 100 accounts", least: minEventsPerSecond, measured: spread.perSecond },
    {
      what: "billing: 1 account to 100 accounts",
      least: minHotToSpread,
      measured: ratioOf(windows, names.hot, names.spread),
    },
  ];
}
