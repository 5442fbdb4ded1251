import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { repository } from "../../tools/checks/run.ts";

/** What a page for operators tells to run, in one line. */
export type PageCommand = { page: string; line: string };

// Its blocks define functions for what follows; a test of its own runs them on a cluster of Redis.
const ownTest = "deploy/operations/shards.md";

const folder = "deploy/observability/runbooks/";
const preludePage = `${folder}README.md`;
const certificatePage = "deploy/operations/operator-certificate.md";
const isFunction = (line: string): boolean => /^\w+\(\) /.test(line);

const blocksOf = (page: string): string[] =>
  [...readFileSync(join(repository, page), "utf8").matchAll(/^ *```sh\n([^]*?)^ *```/gm)].map(
    ([, block = ""]) => block,
  );

const linesOf = (block: string): string[] => block.replaceAll(/\\\n\s*/g, "").split("\n");
const pages = (): string[] =>
  globSync([`${folder}*.md`, "deploy/operations/*.md", "deploy/tools/backup/README.md"], { cwd: repository })
    .filter((page) => page !== preludePage && page !== ownTest)
    .toSorted();

/** The shell functions that every page assumes. */
export const prelude = (): string =>
  [...blocksOf(preludePage), ...blocksOf(certificatePage).flatMap(linesOf).filter(isFunction)].join("\n");

/** Every command in a block of the runbooks and of the pages for operators. */
export const pageCommands = (): PageCommand[] =>
  pages().flatMap((page) =>
    blocksOf(page)
      .flatMap(linesOf)
      .map((line) => ({ page, line: line.replace(/(?:^|\s+)#\s.*$/, "").trim() }))
      .filter(({ line }) => line !== "" && !isFunction(line)),
  );

/** Every whole command of the operator's tool, kubectl or helm in a sentence of theirs. */
export const sentenceCommands = (): PageCommand[] =>
  pages().flatMap((page) =>
    [
      ...readFileSync(join(repository, page), "utf8")
        .replaceAll(/^ *```[^]*?^ *```/gm, "")
        .matchAll(/`([^`]+)`/g),
    ]
      .map(([, line = ""]) => ({ page, line: line.replaceAll(/\s+/g, " ") }))
      .filter(({ line }) => /^(admin|operator|kubectl|helm) [^…]+$/.test(line) && !line.includes("|")),
  );

/** What pages say to run, each line once. */
export const commandLines = (): string[] => [
  ...new Set([...pageCommands(), ...sentenceCommands()].map(({ line }) => line)),
];

/** The entry of a list whose command a line is. */
export const entryOf = <T>(list: readonly (readonly [RegExp, T])[], line: string): readonly [RegExp, T] | undefined =>
  list.find(([command]) => command.test(line));

/** Commands that are not run here, and why; `../control-plane/commands.ts` runs many of them. */
export const notRun: readonly (readonly [RegExp, string])[] = [
  [/^kubectl .*\b(get|describe|top) (?!.*authority)/, "tells what the cluster knows"],
  [/^kubectl .*rollout (status|history) /, "tells what the cluster knows"],
  [/^kubectl .*logs POD --previous/, "tells of a container that has ended"],
  [/^kubectl .*component=(console|backup|restore)( |$)/, "reads a log of what does not run here"],
  [/^kubectl (-n "\$NS" (create|delete pod|rollout (restart|pause))|cordon|drain) /, "changes the cluster"],
  [/^helm /, "changes the release, or tells what the cluster knows"],
  [/^(export|NATS_URL=)/, "copies or replaces all stores; drills of their own do it"],
  [/^(admin close|operator restore-day)( |$)/, "needs a day that is final, which takes days"],
  [/^operator shards /, "closes the API for all; a test of its own does it"],
  [/^operator move-account /, "needs several shards; a drill of its own does it"],
  [/^kubectl .*component=catalog-check/, "reads a log of what does not run here"],
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
  [/(^| exec .* )admin catalog$/, /^SHA-256 +[0-9a-f]{64}$/m],
  [/^admin catalog list$/, /^applied$/m],
  [/^admin reconcile(?! --day [DT])/, /^R1 .*\n[^]*^R2 .*\n[^]*^R7 /m],
  [/^admin lost$/, /^auth-quota knows every account and key of the ledger$/m],
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

/** Commands that change something, in the order in which they are run, and what they show. */
export const changing: readonly (readonly [RegExp, RegExp])[] = [
  [/^umask /, /^$/],
  [/ get secret .*authority.* >ca\.(crt|key)$/, /^$/],
  [/^openssl .*admin\.model-relay/, /^$/],
  [/^rm ca\.key$/, /^$/],
  [/ port-forward /, /^$/],
  [/^operator account list$/, /^acct_/m],
  [/^operator debug loop /, /"utilization": [\d.]+/],
  [/^operator debug (cpu|heap) .*>relay\./, /^$/],
  [/^admin credit ACCOUNT USD /, /^line +[0-9a-f-]{36}\namount/],
  [/^admin correct ACCOUNT /, /^line +[0-9a-f-]{36}\namount/],
  [/^admin refund ACCOUNT RID USD /, /^line +[0-9a-f-]{36}\namount/],
  [/^admin replay$/, /^missing/m],
  [/^admin reconcile --day (DAY|TODAY)$/, /^R1 /m],
  [/^admin holds ACCOUNT$/, /^open holds/m],
  [/^admin key models KEY /, /gpt-5-mini-next/],
  [/^admin key stop OLD$/, /stopped/],
  [/^admin key delete OLD$/, /deleted/],
  [/^operator catalog apply /, /^1$/m],
  [/^admin catalog show VERSION /, /^$/],
  [/^admin catalog rollback VERSION /, /^2$/m],
  [/^admin account suspend ACCOUNT$/, /suspended/],
];
