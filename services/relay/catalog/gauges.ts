import type { Registry } from "prom-client";
import { gauge, gauges } from "#shared/metrics/metrics.ts";
import type { CatalogFile } from "#shared/catalog/follow.ts";
import type { LiveCatalog } from "./catalog.ts";

/** Declares the gauges of the catalog's file. */
export function watchCatalog(
  registry: Registry,
  { file, isStale }: { file: () => Pick<CatalogFile, "contentHash">; isStale: LiveCatalog["isStale"] },
): void {
  gauges(registry, {
    name: "relay_catalog_info",
    help: "1; the label is the SHA-256 of the catalog in use.",
    labels: ["hash"],
    read: (set) => set({ hash: file().contentHash }, 1),
  });
  gauge(registry, {
    name: "relay_catalog_refused",
    help: "1 while the newest catalog is refused and the previous one stays in use.",
    read: () => Number(isStale()),
  });
}
