import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { moneyScript } from "../../../services/auth-quota/store/script.ts";
import { patchText } from "#shared/testing/patch-source.ts";
import { mutations } from "./mutations.ts";

const services = join(import.meta.dirname, "../../../services");

// The money script is made of several files, and is patched as a whole.
const textOf = (file: string): string =>
  file.endsWith("/script.lua") ? moneyScript : readFileSync(join(services, file), "utf8");

// A patch of a file that has moved is never applied, and says nothing.
describe("every mutation fits its source", () => {
  for (const { name, patches } of mutations) {
    test(name, () => {
      for (const patch of patches) {
        assert.ok(patch.file.endsWith("/script.lua") || existsSync(join(services, patch.file)), patch.file);
        assert.notEqual(patchText(patch.file, textOf(patch.file), [patch]), textOf(patch.file));
      }
    });
  }
});
