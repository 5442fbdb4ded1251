import type { Variables } from "../../../tools/checks/readme-tables.ts";
import * as variables from "../policies/variables.ts";
import { type PlantedCase, relayOf } from "./planted.ts";

/** What pods are told. Takes what each service declares. */
export const variablePolicies = (services: Map<string, Variables>): PlantedCase[] => [
  {
    policy: "variables are declared",
    check: (objects, given) => variables.variablesAreDeclared(objects, services, given),
    violations: [
      {
        says: "a variable that nobody reads",
        plant: (objects) => void relayOf(objects).env?.push({ name: "NATS_ULR", value: "a" }),
        finds: /relay: NATS_ULR is not declared/,
      },
      {
        says: "a variable that is set twice",
        plant: (objects) => void relayOf(objects).env?.push({ name: "DRAIN_MS", value: "1" }),
        finds: /relay: DRAIN_MS is set twice/,
      },
    ],
  },
  {
    policy: "variables that must be set are set",
    check: (objects) => variables.requiredVariablesAreSet(objects, services),
    violations: [
      {
        says: "a missing address",
        plant: (objects) =>
          void (relayOf(objects).env = relayOf(objects).env?.filter(({ name }) => name !== "AUTH_QUOTA_ADDRESS") ?? []),
        finds: /relay: AUTH_QUOTA_ADDRESS must be set/,
      },
    ],
  },
  {
    policy: "ports are those of the variables",
    check: (objects) => variables.portsMatchVariables(objects, services),
    violations: [
      {
        says: "another port",
        plant: (objects) => relayOf(objects).ports?.forEach((port) => (port.containerPort += 1)),
        finds: /relay: port ops is 9081, the service listens at 9080/,
      },
      {
        says: "a listener of the pod alone",
        plant: (objects) =>
          void (relayOf(objects).env = relayOf(objects).env?.filter(({ name }) => name !== "HTTP_HOST") ?? []),
        finds: /relay: HTTP_HOST is only the pod's own/,
      },
    ],
  },
];
