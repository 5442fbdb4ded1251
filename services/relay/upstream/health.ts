import type { Route } from "../catalog/choose.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { createSlots, type Slots } from "./slots.ts";

const firstPauseMs = 1_000;
const maxPauseMs = 60_000;
const accountCoolDownMs = 60_000;
const rateCoolDownMs = 5_000;
const maxCoolDownMs = 60_000;

/** How long a call waits for a slot of an upstream that has none for its account. */
const slotWaitMs = 2_000;

/** Why an upstream is not asked now; the nearest to serving first. */
export const obstacles = ["busy", "rate", "unavailable", "account"] as const;
export type Obstacle = (typeof obstacles)[number];

type CoolDown = { untilMs: number; obstacle: "rate" | "unavailable" };

type State = {
  name: string;
  slots: Slots;
  /** Failures since the last success. */
  failures: number;
  /** How long the open circuit keeps calls away at a time; 0 while it is closed. */
  pauseMs: number;
  /** From then on one call may find out whether the upstream is back. */
  openUntilMs: number;
  accountUntilMs: number;
  /** By upstream model. */
  coolDowns: Map<string, CoolDown>;
};

/** A call's place at an upstream. */
export type Place = {
  upstream: Upstream;
  model: string;
  account: string;
  state: State;
  isProbe: boolean;
  isLeft: boolean;
};

/** What an attempt says about the upstream; unknown: the caller went away first. */
export type Verdict = "up" | "down" | "unknown";

type RouteOf = Pick<Route, "upstream" | "model">;

export type CircuitChange = "opened" | "closed" | undefined;

export type CircuitState = "closed" | "half-open" | "open";

/** An upstream at a moment; `closedUntilMs` is there while it is open or cooling down, in monotonic time. */
export type UpstreamState = { underWay: number; circuit: CircuitState | "cooling-down"; closedUntilMs?: number };

/**
 * What this process has learnt about its upstreams: who is to be left alone for now, and how many calls are under way.
 * `nowMs` is monotonic time.
 */
export type UpstreamHealth = {
  /**
   * Takes a place for a call of an account; it must be given back with `leave`, whatever comes of the call. Busy: there
   * is no slot for this account.
   */
  enter: (route: RouteOf, nowMs: number, account?: string) => Place | Obstacle;
  /** Waits at most 2 s for what `enter` said was busy, in a queue that is fair to accounts; `cancel` ends the wait. */
  wait: (
    route: RouteOf,
    now: () => number,
    account: string,
  ) => { entry: Promise<Place | Obstacle>; cancel: () => void };
  leave: (place: Place) => void;
  /** Closes the circuit, or opens it after enough failures in a row. */
  judge: (place: Place, verdict: Verdict, nowMs: number) => CircuitChange;
  /** Leaves the upstream's model alone for `forMs` (undefined: 5 s), at most a minute; says whether it does. */
  coolDown: (place: Place, obstacle: CoolDown["obstacle"], forMs: number | undefined, nowMs: number) => boolean;
  /** Leaves the whole upstream alone for a minute: it refuses the service's own account; says whether it does. */
  coolDownAccount: (place: Place, nowMs: number) => boolean;
  /** Forgets all other upstreams; a changed one has another id and starts afresh. */
  retain: (upstreams: Upstream[]) => void;
  /** How an upstream does at whose `models` calls are sent: it cools down as a whole when all of them do. */
  look: (upstream: Upstream, models: string[], nowMs: number) => UpstreamState;
  list: (nowMs: number) => { name: string; underWay: number; circuit: CircuitState }[];
};

function circuitOf({ pauseMs, openUntilMs }: State, nowMs: number): CircuitState {
  if (pauseMs === 0) return "closed";
  return nowMs < openUntilMs ? "open" : "half-open";
}

function lookAt(state: State, models: string[], nowMs: number): UpstreamState {
  const { accountUntilMs, openUntilMs, coolDowns } = state;
  const underWay = state.slots.taken();
  const coolingUntilMs = Math.min(...models.map((model) => coolDowns.get(model)?.untilMs ?? 0));
  const circuit = circuitOf(state, nowMs);
  if (nowMs < accountUntilMs) return { underWay, circuit: "cooling-down", closedUntilMs: accountUntilMs };
  if (circuit === "open") return { underWay, circuit, closedUntilMs: openUntilMs };
  const isCooling = models.length > 0 && nowMs < coolingUntilMs;
  return isCooling ? { underWay, circuit: "cooling-down", closedUntilMs: coolingUntilMs } : { underWay, circuit };
}

function obstacleOf(state: State, { model }: RouteOf, nowMs: number, account: string) {
  if (nowMs < state.accountUntilMs) return "account";
  if (circuitOf(state, nowMs) === "open") return "unavailable";
  const coolDown = state.coolDowns.get(model);
  if (coolDown && nowMs < coolDown.untilMs) return coolDown.obstacle;
  return state.slots.hasRoomFor(account) ? undefined : "busy";
}

function judge({ upstream, state, isProbe }: Place, verdict: Verdict, nowMs: number): CircuitChange {
  const wasClosed = state.pauseMs === 0;
  if (verdict === "up") {
    state.failures = 0;
    state.pauseMs = 0;
    return wasClosed ? undefined : "closed";
  }
  if (verdict === "unknown") {
    if (isProbe) state.openUntilMs = nowMs;
    return undefined;
  }
  if (!wasClosed) {
    // Calls that were under way when the circuit opened say nothing new.
    if (isProbe) state.openUntilMs = nowMs + state.pauseMs;
    return undefined;
  }
  state.failures += 1;
  if (upstream.openAfterFailures === 0 || state.failures < upstream.openAfterFailures) return undefined;
  state.pauseMs = firstPauseMs;
  state.openUntilMs = nowMs + firstPauseMs;
  return "opened";
}

/** Keeps everybody else away until a probe has said what it found; should it hang, another follows, ever later. */
function beginProbe(state: State, nowMs: number): void {
  state.pauseMs = Math.min(state.pauseMs * 2, maxPauseMs);
  state.openUntilMs = nowMs + state.pauseMs;
}

function coolDownModel({ coolDowns }: State, model: string, coolDown: CoolDown, nowMs: number): void {
  for (const [name, { untilMs }] of coolDowns) if (untilMs <= nowMs) coolDowns.delete(name);
  const longest = Math.max(coolDown.untilMs, coolDowns.get(model)?.untilMs ?? 0);
  coolDowns.set(model, { ...coolDown, untilMs: longest });
}

function enter(state: State, route: RouteOf, nowMs: number, account: string): Place | Obstacle {
  const obstacle = obstacleOf(state, route, nowMs, account);
  if (obstacle) return obstacle;
  const isProbe = state.pauseMs > 0;
  if (isProbe) beginProbe(state, nowMs);
  state.slots.take(account);
  return { upstream: route.upstream, model: route.model, account, state, isProbe, isLeft: false };
}

function waitFor(state: State, route: RouteOf, now: () => number, account: string): ReturnType<UpstreamHealth["wait"]> {
  const { promise: entry, resolve } = Promise.withResolvers<Place | Obstacle>();
  const leaveQueue = state.slots.wait(account, () => {
    clearTimeout(timer);
    resolve(enter(state, route, now(), account));
  });
  const cancel = (): void => {
    clearTimeout(timer);
    leaveQueue?.();
    resolve("busy");
  };
  const timer = setTimeout(cancel, slotWaitMs);
  if (!leaveQueue) cancel();
  return { entry, cancel };
}

export function createUpstreamHealth(): UpstreamHealth {
  const states = new Map<string, State>();
  const stateOf = ({ id, name, maxConcurrent }: Upstream): State => {
    let state = states.get(id);
    if (!state) {
      const closed = { failures: 0, pauseMs: 0, openUntilMs: 0, accountUntilMs: 0 };
      state = { name, slots: createSlots(maxConcurrent), ...closed, coolDowns: new Map() };
      states.set(id, state);
    }
    return state;
  };
  return {
    enter: (route, nowMs, account = "") => enter(stateOf(route.upstream), route, nowMs, account),
    wait: (route, now, account) => waitFor(stateOf(route.upstream), route, now, account),
    leave: (place) => {
      if (place.isLeft) return;
      place.isLeft = true;
      place.state.slots.leave(place.account);
    },
    judge,
    coolDown: ({ upstream, model, state }, obstacle, forMs, nowMs) => {
      const coolMs = Math.min(forMs ?? rateCoolDownMs, maxCoolDownMs);
      if (!upstream.coolsDown || coolMs <= 0) return false;
      coolDownModel(state, model, { untilMs: nowMs + coolMs, obstacle }, nowMs);
      return true;
    },
    coolDownAccount: ({ upstream, state }, nowMs) => {
      if (upstream.coolsDown) state.accountUntilMs = nowMs + accountCoolDownMs;
      return upstream.coolsDown;
    },
    retain: (upstreams) => {
      const kept = new Set(upstreams.map(({ id }) => id));
      for (const id of states.keys()) if (!kept.has(id)) states.delete(id);
    },
    look: ({ id }, models, nowMs) => {
      const state = states.get(id);
      return state ? lookAt(state, models, nowMs) : { underWay: 0, circuit: "closed" };
    },
    list: (nowMs) =>
      [...states.values()].map((state) => ({
        name: state.name,
        underWay: state.slots.taken(),
        circuit: circuitOf(state, nowMs),
      })),
  };
}

// RFC 9110, section 5.6.7; the older forms of a date are not sent any more.
const httpDate = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/**
 * Milliseconds that a Retry-After header asks for (RFC 9110, section 10.2.3: seconds or a date); undefined when there
 * is none that can be read. `nowMs` is the time since 1970.
 */
export function retryAfterMs(value: string | string[] | undefined, nowMs: number): number | undefined {
  const text = String(value ?? "").trim();
  if (/^\d{1,9}(\.\d+)?$/.test(text)) return Number(text) * 1_000;
  return httpDate.test(text) ? Math.max(0, Date.parse(text) - nowMs) : undefined;
}
