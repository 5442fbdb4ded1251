import { catalogue, type CataloguedMetric } from "./catalogue.ts";

const intro = `# Metrics

Made from the code by \`npm run generate\`. Every series has the label \`service\` beside those named here. A histogram
\`x\` is kept as \`x_bucket\`, \`x_sum\` and \`x_count\`. No label holds a key, an account, a user or the id of a call.
Values of labels that are not the service's own (models, upstreams, methods) are bounded: what finds no room is counted
as \`other\`, and in \`metrics_series_dropped_total\`.`;

function table(metrics: readonly CataloguedMetric[]): string {
  const rows = metrics.map(({ name, type, labels, help }) => {
    const shown = labels.map((label) => `\`${label}\``).join(", ");
    return `| \`${name}\` | ${type} | ${shown} | ${help.replaceAll("|", "\\|")} |`;
  });
  return ["| metric | type | labels | meaning |", "|---|---|---|---|", ...rows].join("\n");
}

/** The page metrics.md: what all services have, and then each service's own. */
export function renderCatalogue(): string {
  const all = catalogue();
  const services = [...new Set(all.map(({ service }) => service))];
  const byName = Map.groupBy(all, ({ name }) => name);
  const isShared = ({ name }: CataloguedMetric): boolean => byName.get(name)?.length === services.length;
  const shared = all.filter((metric) => metric.service === services[0] && isShared(metric));
  const own = services.map((service) => {
    const metrics = all.filter((metric) => metric.service === service && !isShared(metric));
    return `## ${service}\n\n${table(metrics)}`;
  });
  return [intro, `## Every service\n\n${table(shared)}`, ...own].join("\n\n").concat("\n");
}
