import type { DescEnum, DescField } from "@bufbuild/protobuf";
import { type Timestamp, timestampMs, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { type Usage, type UsageRecorded, UsageRecordedSchema, UsageSchema } from "#proto/usage/v1/usage_pb.ts";
import { instant } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import { bucketNames } from "../../html/units.ts";

/** Every field that a record of the usage stream has, as it came: none of it was checked. */
export function recordFields(usage: UsageRecorded): Markup {
  const values = usage as unknown as Record<string, unknown>;
  const rows = UsageRecordedSchema.fields.map(
    (field) =>
      html`<div>
        <dt><code>${field.name}</code></dt>
        <dd>${valueOf(field, values[field.localName])}</dd>
      </div>`,
  );
  return html`<dl class="figures">${rows}</dl>`;
}

function valueOf({ message, enum: known }: DescField, value: unknown): Markup | string {
  if (value === undefined) return "not set";
  if (known) return nameOf(known, value as number);
  if (message?.typeName === TimestampSchema.typeName) return timeOf(value as Timestamp);
  if (message?.typeName === UsageSchema.typeName) return unitsOf(value as Usage);
  return String(value as string | number | bigint | boolean) || "empty";
}

const nameOf = (known: DescEnum, value: number): string =>
  known.value[value]?.localName.toLowerCase().replaceAll("_", " ") ?? `unknown (${value})`;

const lastMs = Date.UTC(9999, 11, 31);

function timeOf(time: Timestamp): Markup | string {
  const ms = timestampMs(time);
  return ms >= 0 && ms <= lastMs ? instant(new Date(ms)) : `${time.seconds} s after 1970`;
}

function unitsOf(usage: Usage): Markup {
  const used = (Object.entries(bucketNames) as [keyof typeof bucketNames, string][]).filter(([name]) => usage[name]);
  if (used.length === 0) return html`none`;
  return html`<ul class="values">
    ${used.map(([name, words]) => html`<li>${words}: ${usage[name]}</li>`)}
  </ul>`;
}
