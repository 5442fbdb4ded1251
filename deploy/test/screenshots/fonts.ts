import { readFile } from "node:fs/promises";

/** Fonts that are in npm packages: pictures do not depend on those of the machine. */
const files = {
  "Picture Sans": import.meta.resolve("@fontsource-variable/inter/files/inter-latin-wght-normal.woff2"),
  "Picture Mono": import.meta
    .resolve("@fontsource-variable/jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2"),
};

/** A script that has pages drawn in fonts of ours, before anything of them is drawn. */
export async function styleOfPictures(): Promise<string> {
  const faces = Object.entries(files).map(async ([name, file]) => {
    const font = (await readFile(new URL(file))).toString("base64");
    return `@font-face { font-family: "${name}"; font-weight: 100 900;
      src: url("data:font/woff2;base64,${font}") format("woff2"); }`;
  });
  const css = `${(await Promise.all(faces)).join("\n")}
    :root { --font-sans: "Picture Sans" !important; --font-mono: "Picture Mono" !important; }`;
  return `const sheet = new CSSStyleSheet();
    sheet.replaceSync(${JSON.stringify(css)});
    document.adoptedStyleSheets.push(sheet);`;
}
