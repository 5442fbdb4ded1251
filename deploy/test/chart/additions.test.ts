import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { parse, stringify } from "yaml";
import { cannotRunHelm, chartFolder, render } from "./helm.ts";
import { type KubeObject, nameOf, ofKind, type Pod, podsOf } from "./objects.ts";
import { typeProblems } from "./typed-objects.ts";

const components = ["relay", "authQuota", "billing", "videoTask", "console"];
const serviceOf: Record<string, string> = { authQuota: "auth-quota", videoTask: "video-task" };
const accountName = (component: string): string => `shop-model-relay-${serviceOf[component] ?? component}`;

const sidecar = { name: "proxy", image: "proxy:1", restartPolicy: "Always" };
const shipper = { name: "shipper", image: "shipper:1" };

describe("what operators add to the chart's own pods and accounts", { skip: cannotRunHelm }, () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "chart-additions-"));
  });
  after(() => rm(folder, { recursive: true }));

  /** Renders the least values, with these over those of every service, and others over the rest. */
  async function rendered(own: object, others: Record<string, object> = {}): Promise<KubeObject[]> {
    const least = parse(await readFile(join(chartFolder, "ci/minimal-values.yaml"), "utf8")) as Record<string, object>;
    const added = Object.fromEntries(components.map((name) => [name, { ...least[name], ...own }]));
    const file = join(folder, "values.yaml");
    await writeFile(file, stringify({ ...least, ...added, ...others }));
    return render(file);
  }

  const serving = (objects: KubeObject[]): Pod[] => podsOf(objects).filter(({ kind }) => kind === "Deployment");
  const accounts = (objects: KubeObject[]): KubeObject[] => objects.filter(({ kind }) => kind === "ServiceAccount");

  test("accounts have annotations; the pods use them, and still get no token", async () => {
    const annotations = { "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/relay" };
    const objects = await rendered({ serviceAccount: { annotations } });
    const annotationsOf = new Map(accounts(objects).map(({ metadata }) => [metadata.name, metadata.annotations]));
    assert.deepEqual(annotationsOf, new Map(components.map((name) => [accountName(name), annotations])));
    for (const { owner, spec } of serving(objects)) {
      assert.equal(`Deployment/${spec.serviceAccountName}`, owner);
      assert.equal(spec.automountServiceAccountToken, false);
    }
  });

  test("accounts have another name, or are there already and are not made", async () => {
    const names = (name: string, create: boolean) =>
      Object.fromEntries(components.map((component) => [component, `${name}-${component.toLowerCase()}-${create}`]));
    for (const create of [true, false]) {
      const wanted = names("own", create);
      const least = parse(await readFile(join(chartFolder, "ci/minimal-values.yaml"), "utf8")) as Record<
        string,
        object
      >;
      const others = Object.fromEntries(
        components.map((component) => [
          component,
          { ...least[component], serviceAccount: { create, name: wanted[component] } },
        ]),
      );
      const objects = await rendered({}, others);
      const made = new Set(accounts(objects).map(({ metadata }) => metadata.name));
      assert.deepEqual(made, new Set(create ? Object.values(wanted) : []));
      const used = new Set(serving(objects).map(({ spec }) => spec.serviceAccountName));
      assert.deepEqual(used, new Set(Object.values(wanted)));
    }
    const nameless = await rendered({ serviceAccount: { create: false } });
    assert.deepEqual(accounts(nameless), []);
    for (const { spec } of serving(nameless)) assert.equal(spec.serviceAccountName, "default");
  });

  test("pods have further containers, before and beside the service's, which stays the first", async () => {
    const objects = await rendered({ extraContainers: [shipper], extraInitContainers: [sidecar] });
    for (const { component, spec } of serving(objects)) {
      assert.deepEqual(
        spec.containers.map(({ name }) => name),
        [component, "shipper"],
      );
      assert.deepEqual(spec.initContainers, [sidecar]);
    }
    assert.deepEqual(await typeProblems(new Map([["additions", objects]])), []);
  });

  test("Deployments have annotations, and every object and pod has further labels", async () => {
    const objects = await rendered(
      { deploymentAnnotations: { "reloader.example/auto": "true" } },
      { commonLabels: { team: "inference" } },
    );
    for (const { metadata } of ofKind(objects, "Deployment"))
      assert.deepEqual(metadata.annotations, { "reloader.example/auto": "true" });
    for (const object of objects) assert.equal(object.metadata.labels?.["team"], "inference", nameOf(object));
    for (const { owner, labels } of podsOf(objects)) assert.equal(labels["team"], "inference", owner);
    for (const { spec } of ofKind<{ selector: { matchLabels: object } }>(objects, "Deployment"))
      assert.ok(!("team" in spec.selector.matchLabels), "a selector cannot change");
  });

  test("pods are replaced as operators say, with DNS settings of their own", async () => {
    const strategy = { type: "Recreate", rollingUpdate: null };
    const dnsConfig = { options: [{ name: "ndots", value: "1" }] };
    const objects = await rendered({ strategy, dnsConfig });
    for (const { spec } of ofKind<{ strategy: object }>(objects, "Deployment"))
      assert.deepEqual(spec.strategy, { type: "Recreate" });
    for (const { spec } of serving(objects)) assert.deepEqual(spec.dnsConfig, dnsConfig);
    assert.deepEqual(await typeProblems(new Map([["additions", objects]])), []);
  });

  test("the catalog is checked before anything else, without credentials and without the network", async () => {
    const objects = await rendered({}, { catalog: { inline: "models: {}", credentialsSecret: "provider-keys" } });
    const [job] = objects.filter(({ kind, metadata }) => kind === "Job" && metadata.name.endsWith("-catalog-check"));
    const weights = objects.map(({ metadata }) => Number(metadata.annotations?.["helm.sh/hook-weight"] ?? 0));
    assert.equal(job?.metadata.annotations?.["helm.sh/hook"], "pre-install,pre-upgrade");
    assert.equal(Math.min(...weights), -20, "its own copy of the catalog comes first");
    const [pod] = podsOf(objects).filter(({ component }) => component === "catalog-check");
    assert.deepEqual(pod?.spec.containers[0]?.args, ["catalog", "/etc/model-relay/catalog/catalog.yaml"]);
    assert.ok(pod && !JSON.stringify(pod.spec).includes("provider-keys"));
  });

  test("the migration has an account that is there, and containers that run beside it until it ends", async () => {
    const migrate = { serviceAccount: { name: "migrator" }, extraInitContainers: [sidecar] };
    const [job] = podsOf(await rendered({}, { migrate })).filter(({ component }) => component === "migrate");
    assert.equal(job?.spec.serviceAccountName, "migrator");
    assert.deepEqual(job?.spec.initContainers, [sidecar]);
  });
});
