import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { needsBrowser } from "../e2e/console/browser.ts";
import { startAcme } from "./acme.ts";
import { differenceOf, takeGlyphs, takePictures, windows } from "./pictures.ts";

describe("pictures of the console", needsBrowser, () => {
  // Light and wide: `npm run screenshots -- --check` compares all four looks, in four times the time.
  test("the main pages look as in the README", async (context) => {
    await using site = await startAcme();
    const taken = takePictures(site, { schemes: ["light"], windows: windows.slice(0, 1) });
    const differences: string[] = [];
    for await (const picture of taken) {
      const difference = await differenceOf(picture);
      if (difference !== undefined) differences.push(difference);
    }
    site.browser.check();
    if (differences.length > 0 && (await differenceOf(await takeGlyphs(site.page))) !== undefined) {
      context.skip("the browser of this machine draws the same text otherwise than the one that took the pictures");
      return;
    }
    assert.deepEqual(differences, [], "`npm run screenshots` takes them anew, if they are meant to differ");
  });
});
