import { member, stringOf } from "../dialect.ts";
import type { Picture } from "../reply.ts";

/** A picture that was drawn; undefined where it failed. */
export function readPicture(item: unknown): Picture | undefined {
  const data = stringOf(member(item, "result"));
  const format = stringOf(member(item, "output_format")) ?? "png";
  const mediaType = `image/${format === "svg" ? "svg+xml" : format}`;
  return data ? { kind: "image", mediaType, data } : undefined;
}
