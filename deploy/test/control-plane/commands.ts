import assert from "node:assert/strict";
import { mkdtempDisposable, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { findProgram } from "#shared/testing/binaries.ts";
import { type CommandResult, repository, run } from "../../tools/checks/run.ts";
import { chartFolder } from "../chart/helm.ts";
import { pageCommands, sentenceCommands } from "../e2e/operator-commands.ts";
import { type Cluster, startCluster } from "./cluster.ts";
import { startKubelets } from "./kubelet.ts";
import { buildHelm, currentHelms } from "./programs.ts";

// What `npm run test:examples` runs: commands of the pages for operators that ask a cluster or change it, as they are
// written. The end-to-end tests run the others.

/** What is run, in this order; a zone is left at the end. */
const order: readonly RegExp[] = [
  /^kubectl .*create job .* (backup-now|before-upgrade)$/,
  /^kubectl .*create secret generic ledger-archive/,
  /^helm .*billing\.archive/,
  /^helm .*restore\.folder=FOLDER$/,
  /^helm .*restore\.folder=$/,
  /^helm -n "\$NS" upgrade .* -f my-values\.yaml/,
  /^kubectl .*rollout (status|history) deployment/,
  /^helm -n "\$NS" (history|test|rollback) /,
  /^helm .* get values .* >before\.yaml$/,
  /^helm .* -f before\.yaml$/,
  /^kubectl .*\bget (networkpolicies|pods|jobs|events|deployments|secret SECRET)/,
  /^kubectl .*\bget secret .*authority/,
  /^kubectl .*describe pod POD \| tail/,
  /^kubectl .*delete pod POD /,
  /^kubectl .*rollout restart /,
  /^kubectl cordon /,
  /^kubectl drain -l /,
  /^kubectl .*rollout pause /,
];

const skip = findProgram("go") && findProgram("kubectl") ? false : "go or kubectl is not on this machine";
const lines = [...new Set([...pageCommands(), ...sentenceCommands()].map(({ line }) => line))];

describe("commands of pages for operators, on a control plane", { skip }, () => {
  const owned = new AsyncDisposableStack();
  let cluster: Cluster;
  let folder = "";

  const shell = async (line: string, words: Record<string, string> = {}): Promise<CommandResult> => {
    const told = line.replaceAll(/\b[A-Z]+\b/g, (word) => words[word] ?? word);
    const variables = [`HOME=${folder}`, `KUBECONFIG=${cluster.kubeconfig}`, "NS=model-relay", "RELEASE=model-relay"];
    const ran = await run(
      "env",
      ["-C", folder, ...variables, "sh", "-c", `PATH="${folder}/bin:$PATH"; ${told}`],
      folder,
    );
    // kubectl marks a restart by the second, and pages restart the same Deployments in several commands.
    return ran.errors.includes("already been triggered within the past second") ? shell(line, words) : ran;
  };

  before(async () => {
    folder = owned.use(await mkdtempDisposable(join(tmpdir(), "control-plane-"))).path;
    cluster = owned.use(await startCluster(folder));
    owned.use(await startKubelets(cluster));
    const helm = await buildHelm(currentHelms[0]);
    await symlink(chartFolder, join(folder, "helm"));
    await symlink(join(helm, ".."), join(folder, "bin"));
    const minimal = await readFile(join(chartFolder, "ci/minimal-values.yaml"), "utf8");
    const own = minimal
      .replace("  existingConfigMap: model-relay-catalog\n", "")
      .replace("billing:\n", "billing:\n  signingKeySecret: { name: report-signing }\n");
    const backupPage = await readFile(join(repository, "deploy/tools/backup/README.md"), "utf8");
    const [, backups] = /^```yaml\n([^]*?)^```$/m.exec(backupPage) ?? [];
    assert.ok(backups, "the page of backups has values");
    await writeFile(join(folder, "my-values.yaml"), own + backups);
    for (const file of ["access-key-id", "secret-access-key"]) await writeFile(join(folder, file), "drill");
    await writeFile(join(folder, "catalog.yaml"), "models: {}\nupstreams: {}\n");
    const install = "helm -n model-relay install model-relay ./helm --create-namespace --wait --timeout 5m";
    const { code, errors } = await shell(`${install} -f my-values.yaml --set-file catalog.inline=catalog.yaml`);
    assert.equal(code, 0, errors);
  });
  after(() => owned.disposeAsync());

  for (const command of order) {
    const found = lines.filter((line) => command.test(line));
    it(`${command} is of a page`, () => assert.notEqual(found.length, 0));
    for (const line of found)
      it(line, async () => {
        const { output: pods } = await shell("kubectl -n model-relay get pods -o name | head -1");
        const words = {
          POD: pods.trim().replace("pod/", ""),
          SECRET: "model-relay-relay-grpc-tls",
          ZONE: "b",
          REVISION: "1",
          FOLDER: "one",
        };
        const { code, output, errors } = await shell(line, words);
        assert.equal(code, 0, `${output}${errors}`);
      });
  }
});
