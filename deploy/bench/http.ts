import { claimCores } from "./cores.ts";
import { loads, runLoad, type Load } from "./loads.ts";
import { startRelay } from "./relay-target.ts";
import { renderErrors, renderRows, summarize, type Row, type Window } from "./results.ts";
import { startProxy, startUpstream, type Target } from "./targets.ts";

/** What to measure; `say` hears of progress. */
export type HttpPlan = { rounds: number; hasRelay: boolean; say: (text: string) => void };

/** What was seen of the proxies, and of the ledger behind the relay. */
export type HttpOutcome = {
  isPinned: boolean;
  rows: Row[];
  audit: { isRight: boolean; finding: string } | undefined;
  windows: Window[];
};

/** Puts every load on every proxy in turn, prints what was found, and makes the process fail on errors of calls. */
export async function measureHttp({ rounds, hasRelay, say }: HttpPlan): Promise<HttpOutcome> {
  await using resources = new AsyncDisposableStack();
  const cores = claimCores();
  say(
    cores.isPinned ? "core 0: what is measured; core 1: everything else" : "NOT PINNED: no taskset, or one core only",
  );
  const upstream = resources.use(await startUpstream());
  const origin = `http://127.0.0.1:${upstream.port}`;
  const bare = resources.use(await startProxy("bare", origin, cores));
  const pipe = resources.use(await startProxy("pipe", origin, cores));
  if (hasRelay) say("starting the whole stack; its limits are raised, not switched off");
  const relay = hasRelay ? resources.use(await startRelay(origin, cores)) : undefined;

  const { windows, relayCalls } = await measureAll([bare, pipe, ...(relay ? [relay] : [])], rounds, say);
  const audit = await relay?.audit(relayCalls);
  const outcome = { isPinned: cores.isPinned, rows: summarize(loads, windows), audit, windows };
  say(`\nMedian (least…greatest) of ${rounds} rounds; ratios are medians of the ratios within a round.\n`);
  say(renderHttp(outcome));
  if (renderErrors(windows) || audit?.isRight === false) process.exitCode = 1;
  return outcome;
}

async function measureAll(targets: Target[], rounds: number, say: HttpPlan["say"]) {
  let relayCalls = 0;
  const windows: Window[] = [];
  const measure = async (load: Load, target: Target) => {
    const report = await runLoad(load, target);
    if (target.name === "relay") relayCalls += report.allCalls.whole;
    return report;
  };
  say("warming up");
  // The first load also runs until the code of a target is compiled; without it round 1 would count that.
  for (const [index, load] of loads.entries()) {
    for (const target of targets) await measure({ ...load, windowMs: index === 0 ? 4_000 : 1_000 }, target);
  }
  for (let round = 1; round <= rounds; round += 1) {
    say(`round ${round} of ${rounds}`);
    for (const load of loads) {
      for (const target of targets) {
        const report = await measure(load, target);
        windows.push({ round, load: load.name, target: target.name, report });
      }
    }
  }
  return { windows, relayCalls };
}

function renderHttp({ rows, audit, windows }: HttpOutcome): string {
  const ledger = audit && `ledger: ${audit.isRight ? "right" : "!!! WRONG"}: ${audit.finding}`;
  return [renderRows(rows), ledger, renderErrors(windows)].filter(Boolean).join("\n\n");
}
