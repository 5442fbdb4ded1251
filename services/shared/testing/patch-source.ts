import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";

/** A change of a source file, made while it is loaded: `find` must occur in it exactly once. */
export type SourcePatch = { file: string; find: string; replace: string };

/** Applies those patches whose `file` the path ends with. Throws when one of them does not fit. */
export function patchText(path: string, text: string, patches: readonly SourcePatch[]): string {
  let patched = text;
  for (const { file, find, replace } of patches) {
    if (!path.endsWith(file)) continue;
    if (patched.split(find).length !== 2) throw new Error(`the patch of ${file} does not fit it exactly once: ${find}`);
    patched = patched.replace(find, () => replace);
  }
  return patched;
}

/** The patches that this process was started with. */
export function readPatches(environment: NodeJS.ProcessEnv): SourcePatch[] {
  return JSON.parse(environment["SOURCE_PATCHES"] ?? "[]") as SourcePatch[];
}

/**
 * Loads sources with the patches applied. Tests start services with `--import` of this file to break a rule without a
 * switch for it in the product.
 */
function hookPatches(patches: readonly SourcePatch[]): void {
  registerHooks({
    load: (url, context, nextLoad) => {
      if (!url.startsWith("file:") || !patches.some(({ file }) => url.endsWith(file))) return nextLoad(url, context);
      const path = fileURLToPath(url);
      const source = patchText(path, readFileSync(path, "utf8"), patches);
      return { format: "module-typescript", source, shortCircuit: true };
    },
  });
}

hookPatches(readPatches(process.env));
