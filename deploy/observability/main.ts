import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { alertTable, readmeWithAlerts } from "./alert-table.ts";
import { renderCatalogue } from "./catalogue-page.ts";
import { dashboardFiles } from "./dashboard-files.ts";
import { renderSloRules } from "./slo-rules.ts";

// Writes what is made from data: metrics.md, rules/slo.yaml, dashboards/ and the table of alerts.
const folder = import.meta.dirname;
await writeFile(join(folder, "metrics.md"), renderCatalogue());
await writeFile(join(folder, "rules/slo.yaml"), renderSloRules());
for (const { name, text } of dashboardFiles()) await writeFile(join(folder, "dashboards", name), text);
const readme = join(folder, "README.md");
await writeFile(readme, readmeWithAlerts(await readFile(readme, "utf8"), alertTable()));
