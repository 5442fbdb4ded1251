import { mkdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pixelmatch from "pixelmatch";
import type { Page } from "playwright-core";
import { PNG } from "pngjs";
import type { PictureSite } from "./acme.ts";

/** Where the pictures are kept, which the console's README shows. */
const folder = join(import.meta.dirname, "../../../services/console/pictures");

export const schemes = ["light", "dark"] as const;
export const windows = [
  { width: 1_280, height: 800 },
  { width: 390, height: 844 },
];

/** Which of the pictures: of each page in these schemes and windows. */
export type Looks = { schemes: readonly (typeof schemes)[number][]; windows: typeof windows };

export type Picture = { name: string; png: PNG };

// Of the page, which the types of this project know nothing of.
const fontsAreLoaded = "document.fonts.ready.then(() => undefined)";
const twoFrames = "new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve())))";

/** Takes pictures of all pages. */
export async function* takePictures({ page, paths }: PictureSite, looks: Looks): AsyncGenerator<Picture> {
  for (const [name, path] of Object.entries(paths)) {
    for (const colorScheme of looks.schemes) {
      for (const window of looks.windows) {
        // Charts are drawn when the scheme changes; before, they did not have the font yet.
        await page.emulateMedia({ colorScheme: colorScheme === "light" ? "dark" : "light" });
        await page.setViewportSize(window);
        await page.goto(path);
        await page.evaluate(fontsAreLoaded);
        await page.emulateMedia({ colorScheme });
        await page.evaluate(twoFrames);
        yield { name: `${name}-${colorScheme}-${window.width}`, png: await take(page) };
      }
    }
  }
}

const take = async (page: Page): Promise<PNG> =>
  PNG.sync.read(await page.screenshot({ animations: "disabled", caret: "hide" }));

/** Text in our fonts: drawn otherwise, it says that this machine's browser draws otherwise than the one before. */
export async function takeGlyphs(page: Page): Promise<Picture> {
  await page.setViewportSize({ width: 390, height: 120 });
  await page.emulateMedia({ colorScheme: "light" });
  await page.goto("/sign-in");
  await page.setContent(`<p style="font: 16px 'Picture Sans'">Hamburgefonstiv 0123456789 $€ ÄÖÜ <b>bold</b></p>
    <p style="font: 14px 'Picture Mono'">if (x != 10) { return "Rgil|"; }</p>`);
  await page.evaluate(fontsAreLoaded);
  return { name: "glyphs", png: await take(page) };
}

const fileOf = ({ name }: Picture): string => join(folder, `${name}.png`);

/** Puts it in the place of the one before. */
export async function keepPicture(picture: Picture): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(
    fileOf(picture),
    PNG.sync.write(picture.png, { deflateLevel: 9, deflateStrategy: 0, filterType: 0, colorType: 2 }),
  );
}

// Of a square of 40 pixels, as a short word takes: one that has changed is seen, one row of a border is not.
const windowSize = 40;
const maxPixels = 60;

/** Compares it with the one that is kept; tells what is wrong, with the file that shows it. */
export async function differenceOf(picture: Picture): Promise<string | undefined> {
  const { name, png } = picture;
  const kept = PNG.sync.read(await readFile(fileOf(picture)));
  const { width, height } = png;
  if (kept.width !== width || kept.height !== height) return `${name}: it is ${width}×${height} now`;
  const shown = new PNG({ width, height });
  const pixels = pixelmatch(kept.data, png.data, null, width, height, { windowSize });
  if (pixels <= maxPixels) return undefined;
  pixelmatch(kept.data, png.data, shown.data, width, height);
  const changes = join(tmpdir(), "console-pictures");
  await mkdir(changes, { recursive: true });
  await writeFile(join(changes, `${name}.png`), PNG.sync.write(png));
  const file = join(changes, `${name}-difference.png`);
  await writeFile(file, PNG.sync.write(shown));
  return `${name}: ${pixels} pixels of a square of ${windowSize} differ: ${file}`;
}
