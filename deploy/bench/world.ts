import { claimCores, type Cores } from "./cores.ts";
import type { Audit } from "./ledger.ts";
import { startLeased } from "./leased-relay.ts";
import { startNginx } from "./nginx-target.ts";
import { maxStreams, openFilesLimit, raiseOpenFiles } from "./open-files.ts";
import { startPortkey } from "./portkey-target.ts";
import { createRecorder, type Recorder } from "./recorder.ts";
import { startRelay, type RelayTarget } from "./relay-target.ts";
import { startMetered, startProxy, startUpstream, type Target, type TargetName } from "./targets.ts";

/** What is to stand there; `say` hears of progress. */
export type WorldPlan = {
  rounds: number;
  /** How long windows are, as a share of what their loads say. */
  pace: number;
  /** nginx and the two bare proxies. */
  hasProxies: boolean;
  hasRelay: boolean;
  hasPortkey: boolean;
  /** Where the services behind the relay, and it, write CPU profiles; left out: nowhere. */
  profiles?: string | undefined;
  say: (text: string) => void;
};

/** The upstream, everything that forwards to it, and what was seen of them. */
export type World = AsyncDisposable & {
  plan: WorldPlan;
  isPinned: boolean;
  recorder: Recorder;
  direct: Target;
  /** All but the upstream itself, in the order in which they take turns. */
  targets: Target[];
  relay: RelayTarget | undefined;
  /** Starts one anew, with a memory that no load has seen; disposal ends it, or leaves the relay as it is. */
  startFresh: (name: TargetName) => Promise<Target & AsyncDisposable>;
  /** Streams that a proxy can have open at once. */
  maxStreams: number;
};

/** Starts the bench's world; whatever is missing on this machine is left out with a word. */
export async function startWorld(plan: WorldPlan): Promise<World> {
  const { say, hasRelay, hasPortkey } = plan;
  await using resources = new AsyncDisposableStack();
  raiseOpenFiles();
  const cores = claimCores();
  say(
    cores.isPinned ? "core 0: what is measured; core 1: everything else" : "NOT PINNED: no taskset, or one core only",
  );
  const direct = resources.use(await startUpstream());
  const start = (name: TargetName) => startTarget(name, direct.port, { cores, say });
  const targets: Target[] = [];
  for (const name of plan.hasProxies ? (["nginx", "bare", "pipe"] as const) : []) {
    const proxy = await start(name);
    if (proxy) targets.push(resources.use(proxy));
    else say(`${name} is not installed: left out`);
  }
  if (hasRelay) say("starting the whole stack; its limits are raised, not switched off");
  const relay = hasRelay ? resources.use(await startRelay(direct.port, cores, plan.profiles)) : undefined;
  if (relay) targets.push(relay);
  if (hasPortkey) targets.push(resources.use(await startPortkey(direct.port, cores, say)));
  const owned = resources.move();
  return {
    plan,
    isPinned: cores.isPinned,
    recorder: createRecorder(direct.port, plan.pace),
    direct,
    targets,
    relay,
    startFresh: async (name) => {
      if (name === "metered" && relay) return startMetered(direct.port, relay, cores);
      if (name === "leased" && relay) return startLeased(relay, cores);
      const fresh = name === "relay" ? undefined : await start(name);
      if (fresh) return fresh;
      if (!relay) throw new Error(`${name} cannot be started`);
      await relay.restart();
      return { ...relay, pid: relay.pid, [Symbol.asyncDispose]: () => Promise.resolve() };
    },
    maxStreams: maxStreams(openFilesLimit()),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

type Means = { cores: Cores; say: (text: string) => void };

async function startTarget(name: TargetName, upstreamPort: number, { cores, say }: Means) {
  if (name === "nginx") return startNginx(upstreamPort, cores);
  if (name === "portkey") return startPortkey(upstreamPort, cores, say);
  return name === "bare" || name === "pipe" ? startProxy(name, upstreamPort, cores) : undefined;
}

/** Compares the ledger with all calls that the relay answered; undefined without a relay. */
export async function auditWorld({ relay, recorder }: World): Promise<Audit | undefined> {
  return relay?.ledger.audit(recorder.chargedCalls);
}
