import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { isTree, type Tree } from "./values-file.ts";

/** As much of Kubernetes' API as helm needs to install a chart and to upgrade it; nothing runs behind it. */
export type ApiServer = AsyncDisposable & {
  url: string;
  /** An object that was made, to be read or changed. Throws when there is none. */
  object: (plural: string, name: string) => Tree;
};

const kinds: Record<string, Record<string, string>> = {
  "/api/v1": { ConfigMap: "configmaps", Secret: "secrets", Service: "services", ServiceAccount: "serviceaccounts" },
  "/apis/apps/v1": { Deployment: "deployments" },
  "/apis/autoscaling/v2": { HorizontalPodAutoscaler: "horizontalpodautoscalers" },
  "/apis/keda.sh/v1alpha1": { ScaledObject: "scaledobjects" },
  "/apis/networking.k8s.io/v1": { NetworkPolicy: "networkpolicies" },
  "/apis/policy/v1": { PodDisruptionBudget: "poddisruptionbudgets" },
};

const versionOf = (path: string): string => path.replace(/^\/apis?\//, "");

function discover(path: string): object | undefined {
  if (path === "/version") return { major: "1", minor: "31", gitVersion: "v1.31.0" };
  if (path === "/api") return { kind: "APIVersions", versions: ["v1"] };
  if (path === "/apis") {
    const groups = Object.keys(kinds)
      .map(versionOf)
      .filter((groupVersion) => groupVersion.includes("/"))
      .map((groupVersion) => {
        const [name, version] = groupVersion.split("/");
        return { name, versions: [{ groupVersion, version }], preferredVersion: { groupVersion, version } };
      });
    return { kind: "APIGroupList", apiVersion: "v1", groups };
  }
  const verbs = ["create", "delete", "get", "list", "patch", "update"];
  const { [path]: known } = kinds;
  const resources = Object.entries(known ?? {}).map(([kind, name]) => ({ kind, name, namespaced: true, verbs }));
  return known && { kind: "APIResourceList", apiVersion: "v1", groupVersion: versionOf(path), resources };
}

/** A merge patch (RFC 7396). Of a strategic one it keeps what that says of maps; lists are nobody's business here. */
function merged(object: Tree, patch: Tree): Tree {
  const result = { ...object };
  for (const [key, value] of Object.entries(patch)) {
    if (key.startsWith("$")) continue;
    if (value === null) delete result[key];
    else if (isTree(value)) result[key] = merged(isTree(result[key]) ? result[key] : {}, value);
    else if (!Array.isArray(value)) result[key] = value;
  }
  return result;
}

/** What the API server itself fills in. */
function withDefaults(object: Tree): Tree {
  const { kind, spec, stringData, ...rest } = object;
  if (kind === "Secret" && isTree(stringData)) {
    const given = Object.entries(stringData).map(([key, text]) => [key, Buffer.from(String(text)).toString("base64")]);
    const data = isTree(rest["data"]) ? rest["data"] : {};
    return { kind, ...rest, data: { ...data, ...Object.fromEntries(given) } };
  }
  return kind === "Deployment" && isTree(spec) ? { ...object, spec: { replicas: 1, ...spec } } : object;
}

const nameIn = (object: Tree): string => String((object["metadata"] as Tree)["name"]);

function isWanted(object: Tree, selector: string): boolean {
  const { labels = {} } = object["metadata"] as { labels?: Tree };
  const wanted = selector.split(",").map((word) => word.split("=", 2));
  return selector === "" || wanted.every(([key = "", value]) => labels[key] === value);
}

/** Serves on a free port of the loopback until it is disposed of. */
export async function startApiServer(): Promise<ApiServer> {
  const objects = new Map<string, Tree>();

  async function answer(request: IncomingMessage): Promise<[number, object]> {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://localhost");
    const told = discover(pathname);
    if (told) return [200, told];
    const body = request.method === "GET" || request.method === "DELETE" ? {} : ((await json(request)) as Tree);
    if (request.method === "POST") {
      objects.set(`${pathname}/${nameIn(body)}`, withDefaults(body));
      return [201, withDefaults(body)];
    }
    const found = objects.get(pathname);
    const selector = searchParams.get("labelSelector") ?? "";
    if (request.method === "GET" && pathname.endsWith("/secrets")) {
      const items = [...objects].filter(([path, object]) => path.startsWith(pathname) && isWanted(object, selector));
      return [200, { kind: "SecretList", apiVersion: "v1", items: items.map(([, object]) => object) }];
    }
    if (!found) return [404, { kind: "Status", apiVersion: "v1", status: "Failure", reason: "NotFound", code: 404 }];
    if (request.method === "DELETE") objects.delete(pathname);
    if (request.method === "PUT") objects.set(pathname, withDefaults(body));
    if (request.method === "PATCH") objects.set(pathname, withDefaults(merged(found, body)));
    return [200, objects.get(pathname) ?? found];
  }

  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    void answer(request)
      .catch((error: unknown): [number, object] => [500, { kind: "Status", status: "Failure", message: String(error) }])
      .then(([status, told]) => {
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(told));
      });
  });
  // Under load helm writes on a connection that was idle for longer than the default of five seconds.
  server.keepAliveTimeout = 0;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    object: (plural, name) => {
      const [found] = [...objects].filter(([path]) => path.endsWith(`/${plural}/${name}`)).map(([, object]) => object);
      if (!found) throw new Error(`there is no ${plural}/${name}`);
      return found;
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
