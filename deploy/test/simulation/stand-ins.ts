import { registerHooks } from "node:module";

// What billing loads of the world outside, and what it gets here instead. All else of it is the product's own code.
const standIns: [ending: string, replacement: string][] = [
  ["/services/billing/store/days.ts", import.meta.resolve("./ledger-store.ts")],
  ["/services/billing/store/funds.ts", import.meta.resolve("./ledger-store.ts")],
  ["/services/billing/store/lines.ts", import.meta.resolve("./ledger-store.ts")],
  ["/services/billing/store/post.ts", import.meta.resolve("./ledger-store.ts")],
  ["/services/billing/store/quarantine.ts", import.meta.resolve("./ledger-store.ts")],
];
const jetstream = import.meta.resolve("./jetstream.ts");

/** From now on modules are loaded with the stand-ins; call it before the product is loaded. */
export function hookStandIns(): void {
  registerHooks({
    resolve: (specifier, context, nextResolve) => {
      if (specifier === "@nats-io/jetstream" && context.parentURL?.includes("/services/billing/")) {
        return { url: jetstream, shortCircuit: true };
      }
      const resolved = nextResolve(specifier, context);
      const replaced = standIns.find(([ending]) => resolved.url.endsWith(ending));
      return replaced ? { url: replaced[1], shortCircuit: true } : resolved;
    },
  });
}
