import type { Route } from "../catalog/choose.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";

const firstPauseMs = 1_000;
const maxPauseMs = 60_000;
const accountCoolDownMs = 60_000;
const rateCoolDownMs = 5_000;
const maxCoolDownMs = 60_000;

/** Why an upstream is not asked now; the nearest to serving first. */
export const obstacles = ["busy", "rate", "unavailable", "account"] as const;
export type Obstacle = (typeof obstacles)[number];

type CoolDown = { untilMs: number; obstacle: "rate" | "unavailable" };

type State = {
  name: string;
  underWay: number;
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
export type Place = { upstream: Upstream; model: string; state: State; isProbe: boolean; isLeft: boolean };

/** What an attempt says about the upstream; unknown: the caller went away first. */
export type Verdict = "up" | "down" | "unknown";

export type CircuitChange = "opened" | "closed" | undefined;

export type CircuitState = "closed" | "half-open" | "open";

/** An upstream at a moment; `closedUntilMs` is there while it is open or cooling down, in monotonic time. */
export type UpstreamState = { underWay: number; circuit: CircuitState | "cooling-down"; closedUntilMs?: number };

/**
 * What this process has learnt about its upstreams: who is to be left alone for now, and how many calls are under way.
 * `nowMs` is monotonic time. Nothing is waited for: a call gets a place at once or goes elsewhere.
 */
export type UpstreamHealth = {
  /** Takes a place for a call; it must be given back with `leave`, whatever comes of the call. */
  enter: (route: Pick<Route, "upstream" | "model">, nowMs: number) => Place | Obstacle;
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
  const { underWay, accountUntilMs, openUntilMs, coolDowns } = state;
  const coolingUntilMs = Math.min(...models.map((model) => coolDowns.get(model)?.untilMs ?? 0));
  const circuit = circuitOf(state, nowMs);
  if (nowMs < accountUntilMs) return { underWay, circuit: "cooling-down", closedUntilMs: accountUntilMs };
  if (circuit === "open") return { underWay, circuit, closedUntilMs: openUntilMs };
  const isCooling = models.length > 0 && nowMs < coolingUntilMs;
  return isCooling ? { underWay, circuit: "cooling-down", closedUntilMs: coolingUntilMs } : { underWay, circuit };
}

function obstacleOf(state: State, { upstream, model }: Pick<Route, "upstream" | "model">, nowMs: number) {
  if (nowMs < state.accountUntilMs) return "account";
  if (circuitOf(state, nowMs) === "open") return "unavailable";
  const coolDown = state.coolDowns.get(model);
  if (coolDown && nowMs < coolDown.untilMs) return coolDown.obstacle;
  return state.underWay >= upstream.maxConcurrent ? "busy" : undefined;
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

export function createUpstreamHealth(): UpstreamHealth {
  const states = new Map<string, State>();
  const stateOf = ({ id, name }: Upstream): State => {
    let state = states.get(id);
    if (!state) {
      state = { name, underWay: 0, failures: 0, pauseMs: 0, openUntilMs: 0, accountUntilMs: 0, coolDowns: new Map() };
      states.set(id, state);
    }
    return state;
  };
  return {
    enter: (route, nowMs) => {
      const state = stateOf(route.upstream);
      const obstacle = obstacleOf(state, route, nowMs);
      if (obstacle) return obstacle;
      const isProbe = state.pauseMs > 0;
      if (isProbe) beginProbe(state, nowMs);
      state.underWay += 1;
      return { upstream: route.upstream, model: route.model, state, isProbe, isLeft: false };
    },
    leave: (place) => {
      if (place.isLeft) return;
      place.isLeft = true;
      place.state.underWay -= 1;
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
        underWay: state.underWay,
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
