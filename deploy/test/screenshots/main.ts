import { startAcme } from "./acme.ts";
import { differenceOf, keepPicture, schemes, takeGlyphs, takePictures, windows } from "./pictures.ts";

// Takes the pictures of the console's README anew: eight pages, light and dark, wide and on a phone. With --check it
// compares all of them with those that are kept, and keeps none.
const isCheck = process.argv.includes("--check");
await using site = await startAcme();
for await (const picture of takePictures(site, { schemes, windows })) {
  if (!isCheck) {
    await keepPicture(picture);
    continue;
  }
  const difference = await differenceOf(picture);
  if (difference === undefined) continue;
  process.stdout.write(`${difference}\n`);
  process.exitCode = 1;
}
site.browser.check();
if (!isCheck) await keepPicture(await takeGlyphs(site.page));
