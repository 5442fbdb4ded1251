import * as volumes from "../policies/volumes.ts";
import { podOf, relayOf, type PlantedCase } from "./planted.ts";

/** The files that pods find. */
export const volumePolicies: PlantedCase[] = [
  {
    policy: "mounts exist",
    check: volumes.mountsExist,
    violations: [
      {
        says: "a volume that is not there",
        plant: (objects) => void relayOf(objects).volumeMounts?.push({ name: "nothing", mountPath: "/nothing" }),
        finds: /relay: no volume nothing/,
      },
      {
        says: "a volume that is not mounted",
        plant: (objects) => void podOf(objects, "relay").volumes?.push({ name: "more", emptyDir: {} }),
        finds: /relay: more is not mounted/,
      },
    ],
  },
  {
    policy: "named files are mounted",
    check: volumes.namedFilesAreMounted,
    violations: [
      {
        says: "a file that lies nowhere",
        plant: (objects) => void relayOf(objects).env?.push({ name: "TLS_CERT_FILE", value: "/etc/nowhere/tls.crt" }),
        finds: /relay: TLS_CERT_FILE names \/etc\/nowhere/,
      },
    ],
  },
  {
    policy: "ConfigMaps exist",
    check: volumes.configMapsExist,
    violations: [
      {
        says: "a ConfigMap that nobody makes",
        plant: (objects) => void podOf(objects, "relay").volumes?.push({ name: "a", configMap: { name: "nobody" } }),
        finds: /relay: no ConfigMap nobody/,
      },
    ],
  },
];
