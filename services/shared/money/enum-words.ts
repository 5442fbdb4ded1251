import type { DescEnum } from "@bufbuild/protobuf";

/** An enum value as words: LINE_KIND_FINAL_ADJUSTMENT is "final adjustment". Unknown values show their number. */
export function enumWords(schema: DescEnum, value: number): string {
  const name = schema.value[value]?.name;
  if (name === undefined) return `unknown ${value}`;
  return name
    .slice(schema.sharedPrefix?.length ?? 0)
    .toLowerCase()
    .replaceAll("_", " ");
}
