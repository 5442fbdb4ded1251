/**
 * The folders and files at the top of each service, the highest first: a room imports only from the rooms that stand
 * behind it. What a call passes through is above what it is made of; stores know nothing of those who ask them.
 */
export const rooms: Record<string, readonly string[]> = {
  "services/relay": [
    "main.ts",
    "app.ts",
    "drain.ts",
    "routes",
    "sockets",
    "call.ts",
    "videos",
    "report",
    "stream",
    "upstream",
    "conversion",
    "http",
    "threads",
    "charge",
    "live-call.ts",
    "leased-call.ts",
    "call-times.ts",
    "catalog",
    "metrics.ts",
    "failing-accounts.ts",
    "recent-calls.ts",
    "failures.ts",
    "callers.ts",
    "config.ts",
    "dialects",
  ],
  "services/billing": [
    "main.ts",
    "app.ts",
    "reconcile",
    "handlers",
    "archive",
    "intake",
    "store",
    "metrics.ts",
    "records",
    "callers.ts",
    "config.ts",
  ],
  "services/auth-quota": [
    "main.ts",
    "app.ts",
    "open-shards.ts",
    "handlers",
    "session",
    "hot",
    "metrics.ts",
    "operation-names.ts",
    "store",
    "callers.ts",
    "config.ts",
  ],
  "services/video-task": [
    "main.ts",
    "app.ts",
    "open-catalog.ts",
    "handlers",
    "submission",
    "polling",
    "charges",
    "gauges.ts",
    "task-message.ts",
    "check-request.ts",
    "store",
    "transition.ts",
    "undelivered.ts",
    "providers",
    "metrics.ts",
    "catalog.ts",
    "task.ts",
    "callers.ts",
    "config.ts",
  ],
  "services/console": [
    "main.ts",
    "app.ts",
    "routes.ts",
    "routes",
    "reseal.ts",
    "http",
    "sign-in",
    "top-ups",
    "domains",
    "alerts",
    "directory.ts",
    "playground-call.ts",
    "playground-key.ts",
    "invitation-link.ts",
    "loaded-models.ts",
    "audit-log.ts",
    "deps.ts",
    "mailer.ts",
    "relays.ts",
    "txt-records.ts",
    "metrics.ts",
    "credentials",
    "html",
    "payments",
    "store",
    "permissions.ts",
    "config.ts",
    "ids.ts",
    "email-address.ts",
    "chat-stream.ts",
    "pdf.ts",
    "interleave.ts",
  ],
  "services/shared": ["catalog", "grpc", "net", "stores", "metrics", "process", "money", "protobuf"],
};

export type SourceFile = { path: string; text: string };

const aliases: Record<string, string> = {
  "#shared/": "services/shared/",
  "#fake-provider/": "services/fake-provider/",
};

function targetOf({ path }: SourceFile, specifier: string): string | undefined {
  for (const [alias, folder] of Object.entries(aliases)) {
    if (specifier.startsWith(alias)) return folder + specifier.slice(alias.length);
  }
  if (!specifier.startsWith(".")) return undefined;
  return new URL(specifier, `file:///${path}`).pathname.slice(1);
}

const imported = /^(?:import|export)\b[^;]*?\bfrom "([^"]+)"/gm;

/** The room of a path in a service: its first file or folder there. */
const roomOf = (service: string, path: string): string | undefined =>
  path.startsWith(`${service}/`) ? path.slice(service.length + 1).split("/", 1)[0] : undefined;

/** Imports that go up, as `importer -> imported`, and rooms that no list names. */
export function wrongArrows(files: readonly SourceFile[], services = rooms): string[] {
  return Object.entries(services).flatMap(([service, order]) =>
    files.flatMap((file) => {
      const room = roomOf(service, file.path);
      if (room === undefined || room === "testing" || file.path.endsWith(".test.ts")) return [];
      const at = order.indexOf(room);
      if (at === -1) return [`${service}/${room} stands in no list of rooms`];
      return [...file.text.matchAll(imported)].flatMap(([, specifier = ""]) => {
        const target = targetOf(file, specifier);
        const below = target && roomOf(service, target);
        return below !== undefined && order.indexOf(below) < at ? [`${file.path} -> ${target}`] : [];
      });
    }),
  );
}
