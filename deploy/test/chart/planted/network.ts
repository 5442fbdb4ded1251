import { certificatesFit } from "../policies/certificates.ts";
import * as network from "../policies/network.ts";
import { askedPortsAreOpen } from "../policies/reachable.ts";
import { type PlantedCase, relayOf, find, specOf } from "./planted.ts";

/** Who reaches whom. */
export const networkPolicies: PlantedCase[] = [
  {
    policy: "pods are fenced",
    check: network.podsAreFenced,
    violations: [
      {
        says: "pods of another name",
        plant: (objects) => {
          const made = specOf<{ template: { metadata: { labels: Record<string, string> } } }>(
            objects,
            "Deployment",
            "-relay",
          );
          made.template.metadata.labels["app.kubernetes.io/name"] = "other";
        },
        finds: /relay: no NetworkPolicy for Egress/,
      },
    ],
  },
  {
    policy: "credentials of the cloud are out of reach",
    check: network.metadataIsBlocked,
    violations: [
      {
        says: "the whole internet",
        plant: (objects) =>
          void specOf<{ egress: object[] }>(objects, "NetworkPolicy", "-relay").egress.push({
            to: [{ ipBlock: { cidr: "0.0.0.0/0" } }],
            ports: [{ port: 443 }],
          }),
        finds: /relay: 0\.0\.0\.0\/0 holds metadata/,
      },
      {
        says: "a rule without peers",
        plant: (objects) =>
          void specOf<{ egress: object[] }>(objects, "NetworkPolicy", "-relay").egress.push({ ports: [{ port: 1 }] }),
        finds: /relay: goes anywhere/,
      },
    ],
  },
  {
    policy: "policies select pods",
    check: network.policiesSelectPods,
    violations: [
      {
        says: "a peer that is nobody",
        plant: (objects) =>
          void specOf<{ ingress: object[] }>(objects, "NetworkPolicy", "-relay").ingress.push({
            from: [{ podSelector: { matchLabels: { "app.kubernetes.io/component": "billling" } } }],
          }),
        finds: /relay: no pod has .*billling/,
      },
    ],
  },
  {
    policy: "Services reach pods",
    check: network.servicesReachPods,
    violations: [
      {
        says: "a port that no pod has",
        plant: (objects) =>
          void specOf<{ ports: object[] }>(objects, "Service", "-billing").ports.push({ port: 1, targetPort: "grcp" }),
        finds: /billing: no pod has the port grcp/,
      },
      {
        says: "a selector that is too wide",
        plant: (objects) =>
          void delete specOf<{ selector: Record<string, string> }>(objects, "Service", "-billing").selector[
            "app.kubernetes.io/component"
          ],
        finds: /billing: selects pods of/,
      },
    ],
  },
  {
    policy: "gRPC is headless",
    check: network.grpcIsHeadless,
    violations: [
      {
        says: "an address of its own",
        plant: (objects) => void delete specOf<{ clusterIP?: string }>(objects, "Service", "-auth-quota").clusterIP,
        finds: /auth-quota: gRPC is not headless/,
      },
      {
        says: "no Service",
        plant: (objects) => void objects.splice(objects.indexOf(find(objects, "Service", "-billing")), 1),
        finds: /billing: no Service leads to its gRPC/,
      },
    ],
  },
  {
    policy: "what pods are told to ask is open to them",
    check: askedPortsAreOpen,
    violations: [
      {
        says: "a neighbour that is not let in",
        plant: (objects) => void (specOf<{ ingress: object[] }>(objects, "NetworkPolicy", "-auth-quota").ingress = []),
        finds: /auth-quota: lets Deployment\/.*-relay not in at port 7001/,
      },
      {
        says: "a neighbour on another port",
        plant: (objects) =>
          void relayOf(objects).env?.push({ name: "BILLING_ADDRESS", value: "dns:///shop-model-relay-billing:7009" }),
        finds: /relay: may not go to port 7009 of Deployment\/.*-billing/,
      },
    ],
  },
  {
    policy: "certificates fit",
    check: certificatesFit,
    violations: [
      {
        says: "a certificate of another component, for servers alone, that nobody has",
        plant: (objects) =>
          Object.assign(specOf<object>(objects, "Certificate", "-relay-grpc"), {
            dnsNames: ["console.model-relay.internal"],
            usages: ["server auth"],
            secretName: "other",
          }),
        finds:
          /does not name relay\.model-relay\.internal[^]*names console\.[^]*not for client auth[^]*no pod of relay has/,
      },
    ],
  },
];
