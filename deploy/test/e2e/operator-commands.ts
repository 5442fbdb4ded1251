import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { repository } from "../../tools/checks/run.ts";

/** What a page for operators tells to run, in one line. */
export type PageCommand = { page: string; line: string };

// Its blocks define functions for what follows; a test of its own runs them on a cluster of Redis.
const ownTest = "deploy/operations/shards.md";

const folder = "deploy/observability/runbooks/";
const preludePage = `${folder}README.md`;

const blocksOf = (page: string): string[] =>
  [...readFileSync(join(repository, page), "utf8").matchAll(/^ *```sh\n([^]*?)^ *```/gm)].map(
    ([, block = ""]) => block,
  );

/** The shell functions that every runbook assumes. */
export const prelude = (): string => blocksOf(preludePage).join("\n");

/** Every command in a block of the runbooks and of the pages for operators. */
export function pageCommands(): PageCommand[] {
  const pages = globSync([`${folder}*.md`, "deploy/operations/*.md", "deploy/tools/backup/README.md"], {
    cwd: repository,
  });
  return pages
    .filter((page) => page !== preludePage && page !== ownTest)
    .toSorted()
    .flatMap((page) =>
      blocksOf(page)
        .flatMap((block) => block.replaceAll(/\\\n\s*/g, "").split("\n"))
        .map((line) => ({ page, line: line.replace(/(?:^|\s+)#\s.*$/, "").trim() })),
    )
    .filter(({ line }) => line !== "");
}

/** Commands that no test runs on a system, and why. */
export const notRun: readonly (readonly [RegExp, string])[] = [
  [/^kubectl .*\b(get|describe|top) /, "tells what the cluster knows"],
  [/^kubectl .*rollout (status|history) /, "tells what the cluster knows"],
  [/^kubectl .*logs POD --previous/, "tells of a container that has ended"],
  [/^kubectl .*component=(console|backup|restore)( |$)/, "reads a log of what does not run here"],
  [/^kubectl (-n "\$NS" create|cordon|drain) /, "changes the cluster"],
  [/^helm /, "changes the release, or tells what the cluster knows"],
  [/^(export|NATS_URL=)/, "copies or replaces all stores; drills of their own do it"],
  [/^admin (close|restore-day) /, "needs a day that is final, which takes days"],
  [/^admin key models /, "changes a key"],
  [/^debug /, "opens an inspector at a port that is one for all systems of a machine; the tool's own test does it"],
  [/^redis-cli .*(--latency-history|cluster) /, "does not end, or needs a cluster of Redis"],
];

/** Commands that only read, and what they show on a system on which calls have failed; the first that fits counts. */
export const readOnly: readonly (readonly [RegExp, RegExp])[] = [
  [/component=relay .*'upstream failed\|call failed'/, /"msg":"upstream failed"[^]*"msg":"call failed"/],
  [/component=relay .*circuit/, /"upstream":"drill-circuit","msg":"circuit opened"/],
  [/component=relay .*'call failed'/, /"msg":"call failed"/],
  [/component=relay .*'left alone'/, /"upstream":"drill-account".*"msg":"upstream is left alone"/],
  [/component=relay .*'catalog reloaded/, /"msg":"catalog reloaded"/],
  [/component=relay .*grep RID/, /"model":"test-model".*"msg":"call"/],
  [/component=auth-quota .*grep -i redis/, /"msg":"redis is ready"/],
  [/component=auth-quota .*hot store/, /"msg":"hot store generation"/],
  [/part-of=model-relay .*"level":"error"/, /"msg":"call failed"/],
  // What they search for has not happened: lines of the log, or none.
  [/^kubectl .*\blogs -l \S+=(relay|auth-quota|billing|video-task) /, /^(?:\{.*\}\n)*$/],
  [/ exec .* admin catalog$/, /^SHA-256 +[0-9a-f]{64}$/m],
  [/^admin reconcile/, /^R1 .*\n[^]*^R2 .*\n[^]*^R7 /m],
  [/^admin replay --dry-run$/, /^missing +\d/m],
  [/^admin holds$/, /^open holds +\d/m],
  [/^admin quarantine$/, /\S/],
  [/^admin quarantine \| grep hold_unproven$/, /^(?:.*hold_unproven.*\n)*$/],
  [/^admin ledger ACCOUNT/, /charge +test-model/],
  [/^admin usage ACCOUNT --by model$/, /^test-model +1 /m],
  [/^admin export /, /^$/],
  [/^ops POD readyz$/, /^ok$/m],
  [/^ops POD metrics \| wc$/, /^ *\d{3,} +\d{4,} +\d{5,}$/m],
  [/^ops POD metrics \| cut/, /\d relay_call_duration_seconds_bucket$/m],
  [/^redis-cli .*slowlog get/, /^/],
  [/^npm run catalog -- catalog.yaml$/, /^test-model at fake$/m],
];
