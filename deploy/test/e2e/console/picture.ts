import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Page } from "playwright-core";

const repository = join(import.meta.dirname, "../../../..");

/**
 * Takes a picture of the window when UPDATE_SCREENSHOT=1 asks for it; else fails when there is none, or one of another
 * size. Pictures are not compared: fonts and dates differ from machine to machine and day to day.
 */
export async function checkPicture(page: Page, path: string): Promise<void> {
  const file = join(repository, path);
  const isAsked = process.env["UPDATE_SCREENSHOT"] === "1";
  if (isAsked) await mkdir(dirname(file), { recursive: true });
  const taken = await page.screenshot({ animations: "disabled", caret: "hide", ...(isAsked && { path: file }) });
  assert.deepEqual(sizeOf(await readFile(file)), sizeOf(taken), `${path} is taken by UPDATE_SCREENSHOT=1`);
}

// The header of a PNG: 8 bytes that say so, length and name of the first chunk, then width and height.
const sizeOf = (png: Buffer) => ({ width: png.readUInt32BE(16), height: png.readUInt32BE(20) });
