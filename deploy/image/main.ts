// What the image runs: the first word names a service, or a tool, whose main.ts then is this process.
const mains = {
  relay: "../../services/relay/main.ts",
  "auth-quota": "../../services/auth-quota/main.ts",
  billing: "../../services/billing/main.ts",
  "video-task": "../../services/video-task/main.ts",
  console: "../../services/console/main.ts",
  migrate: "../tools/migrate/main.ts",
  admin: "../tools/admin/main.ts",
  certificates: "../tools/certificates/main.ts",
  catalog: "../../services/relay/catalog/check.ts",
  debug: "../tools/debug/main.ts",
  backup: "../tools/admin/main.ts",
  restore: "../tools/admin/main.ts",
};

// Commands of the operator's CLI, which has to see their names.
const ofAdmin = new Set(["backup", "restore"]);

const isCommand = (word: string | undefined): word is keyof typeof mains => Object.hasOwn(mains, word ?? "");

// The first process of a container ignores a signal that it has no handler for. A service has one only once it runs;
// until then this one ends it.
const leave = (signal: NodeJS.Signals): void => {
  if (process.listenerCount(signal) === 1) process.exit(signal === "SIGTERM" ? 143 : 130);
};
process.on("SIGTERM", leave);
process.on("SIGINT", leave);

const command = process.argv[2];
if (isCommand(command)) {
  // What runs reads its own arguments behind the place where programs stand.
  if (!ofAdmin.has(command)) process.argv.splice(2, 1);
  await import(mains[command]);
  process.off("SIGTERM", leave).off("SIGINT", leave);
} else {
  process.stderr.write(`name one of: ${Object.keys(mains).join(", ")}\n`);
  process.exitCode = 2;
}
