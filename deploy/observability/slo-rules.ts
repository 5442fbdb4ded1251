import { burns, minBad, slos, type Burn, type Slo } from "./slos.ts";

const windows = ["5m", "30m", "1h", "2h", "6h", "1d", "3d"];
// What all calls of these come to is averaged from what was recorded over five minutes: three days of every series of
// every process would be read again and again. Bad events have few series.
const averaged = new Set(["1d", "3d"]);

type Recording = { record: string; expr: string };

function recordingsOf({ badRecord, allRecord, badRate, allRate }: Slo): Recording[] {
  const rules: Recording[] = [{ record: `${allRecord}:rate5m`, expr: allRate("5m") }];
  for (const window of windows) {
    const average = (record: string): string => `avg_over_time(${record}:rate5m[${window}])`;
    const ratio = averaged.has(window)
      ? `${average(badRecord)} / ${average(allRecord)}`
      : `${badRecord}:rate${window} / ${allRate(window)}`;
    rules.push(
      { record: `${badRecord}:rate${window}`, expr: badRate(window) },
      { record: `${badRecord}:ratio_rate${window}`, expr: ratio },
    );
  }
  return rules;
}

const percent = (share: number): string => `${Number((share * 100).toPrecision(4))} %`;

function alertOf({ alert, title, isByEndpoint, budget, bad, badRecord }: Slo, burn: Burn): string {
  const { factor, long, longSeconds, short, severity, for: pending } = burn;
  const where = isByEndpoint ? " at {{ $labels.endpoint }}" : "";
  const summary = `${title}${where}: 30-day error budget exhausted in ${Math.round(30 / factor)} days at this rate`;
  const description =
    `{{ $value | humanizePercentage }} of the last ${long}'s ${bad}${where}; ` +
    `${percent(budget)} may in 30 days, and ${percent(budget * factor)} for ${long} and ${short} triggers this alert.`;
  return `      - alert: ${alert}
        expr: |
          ${badRecord}:ratio_rate${long} > ${factor} * ${budget}
            and ${badRecord}:ratio_rate${short} > ${factor} * ${budget}
            and ${badRecord}:rate${long} * ${longSeconds} >= ${minBad}
        for: ${pending}
        labels:
          severity: ${severity}
          long_window: ${long}
          short_window: ${short}
        annotations:
          summary: "${summary}"
          description: "${description}"
          runbook_url: deploy/observability/runbooks/${alert}.md
`;
}

const recordingText = ({ record, expr }: Recording): string => `      - record: ${record}
        expr: ${expr}
`;

const groupOf = (slo: Slo): string => `  - name: ${slo.alert}
    rules:
${recordingsOf(slo).map(recordingText).join("")}${burns.map((burn) => alertOf(slo, burn)).join("")}`;

/** The text of rules/slo.yaml. */
export const renderSloRules = (): string =>
  `# Made from slos.ts by \`node deploy/observability/main.ts\`.\ngroups:\n${slos.map(groupOf).join("")}`;
