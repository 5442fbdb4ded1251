import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { parse } from "yaml";
import { declaredServices, type Variables } from "../../tools/checks/readme-tables.ts";
import { grpcTlsVariables } from "#shared/stores/link-variables.ts";
import { backupVariables, restoreVariables } from "../../tools/backup/config.ts";
import { variables as migrateVariables } from "../../tools/migrate/config.ts";
import { cannotRunHelm, render, valueSets } from "./helm.ts";
import { networkPolicies } from "./planted/network.ts";
import { podPolicies } from "./planted/pods.ts";
import { variablePolicies } from "./planted/variables.ts";
import { volumePolicies } from "./planted/volumes.ts";
import { workloadPolicies } from "./planted/workloads.ts";
import { valueAt } from "./values-file.ts";

// Of the operator's CLI, which reads them by itself.
const addresses = { AUTH_QUOTA_ADDRESS: {}, BILLING_ADDRESS: {} };
const services = new Map<string, Variables>([
  ["migrate", migrateVariables],
  ["backup", backupVariables],
  [
    "restore",
    { ...restoreVariables, properties: { ...restoreVariables.properties, ...grpcTlsVariables, ...addresses } },
  ],
]);
for (const { service, variables } of await declaredServices()) services.set(service, variables);

const policies = [
  ...podPolicies,
  ...networkPolicies,
  ...workloadPolicies,
  ...variablePolicies(services),
  ...volumePolicies,
];

/** Names of ConfigMaps and variables that the operator has, as the set's values say. */
async function givenNames(file: string): Promise<string[]> {
  const values: unknown = parse(await readFile(file, "utf8"));
  const variables = valueAt(values, "relay.extraEnv") as { name: string }[] | undefined;
  const map = valueAt(values, "catalog.existingConfigMap") as string | undefined;
  return [...(map ? [map] : []), ...(variables ?? []).map(({ name }) => name)];
}

describe("policies", { skip: cannotRunHelm }, () => {
  for (const { name, file, sets } of valueSets()) {
    test(`the set ${name} keeps every policy`, async () => {
      const objects = await render(file, sets);
      const given = await givenNames(file);
      for (const { policy, check } of policies) assert.deepEqual(check(objects, given), [], policy);
    });
  }

  test("every violation that is planted is found", async () => {
    const ha = valueSets().find(({ name }) => name === "ha");
    assert.ok(ha);
    const objects = await render(ha.file);
    for (const { policy, check, violations } of policies) {
      for (const { says, plant, finds } of violations) {
        const broken = structuredClone(objects);
        plant(broken);
        assert.match(check(broken).join("\n"), finds, `${policy}: ${says}`);
      }
    }
  });
});
