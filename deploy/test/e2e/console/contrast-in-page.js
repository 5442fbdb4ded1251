// Runs in the page: tells which texts of controls have less contrast than WCAG 2.2 AA asks for, as they are drawn now.
// Its last value has two functions: `mark` marks the controls to look at, `look` tells what is wrong with those.
(() => {
  const controls = "a[href], button, input:not([type=hidden]), select, textarea, summary";
  const [minOfText, minOfLargeText, minOfOutline] = [4.5, 3, 3];

  const channelsOf = (color) => {
    // What color-mix() and relative colors come to: shares instead of 255ths.
    const shares = /^color\(srgb ([^)]+)\)$/
      .exec(color)?.[1]
      ?.split(/[\s/]+/)
      .map(Number);
    if (shares) return [...shares.slice(0, 3).map((share) => share * 255), shares[3] ?? 1];
    const channels = /^rgba?\(([^)]+)\)$/
      .exec(color)?.[1]
      ?.split(/[\s,/]+/)
      .map(Number);
    if (!channels) throw new Error(`a color in a form that is not read: ${color}`);
    const [red, green, blue, alpha = 1] = channels;
    return [red, green, blue, alpha];
  };
  const over = ([red, green, blue, alpha], below) =>
    [red, green, blue].map((channel, index) => channel * alpha + below[index] * (1 - alpha));

  /** What is painted behind an element's text: backgrounds of those around it, down to the page's. */
  function backgroundOf(element) {
    if (!element) return over(channelsOf(getComputedStyle(document.body).backgroundColor), [255, 255, 255]);
    const own = channelsOf(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own.slice(0, 3) : over(own, backgroundOf(element.parentElement));
  }

  const opacityOf = (element) =>
    element ? Number(getComputedStyle(element).opacity) * opacityOf(element.parentElement) : 1;

  // https://www.w3.org/TR/WCAG22/#dfn-relative-luminance
  const luminance = (channels) => {
    const [red, green, blue] = channels.map((channel) => {
      const share = channel / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].toSorted((left, right) => left - right);
    return (light + 0.05) / (dark + 0.05);
  };

  // https://www.w3.org/TR/WCAG22/#dfn-large-scale: 18 pt, or 14 pt bold.
  const isLarge = ({ fontSize, fontWeight }) =>
    parseFloat(fontSize) >= 24 || (parseFloat(fontSize) >= 18.66 && Number(fontWeight) >= 700);

  const isField = (element) => element.matches("input, select, textarea");
  const hasText = (element) =>
    isField(element) || [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== "");
  const isSeen = (element) => element.checkVisibility() && !element.closest(".hidden");
  // Links know no such state.
  const canBe = (state, control) => state !== "disabled" || control.matches(":disabled");

  const nameOf = (control) =>
    `${control.tagName.toLowerCase()}.${control.className} "${(control.textContent || control.name || "").trim().slice(0, 40)}"`;

  function problemOfText(element) {
    const style = getComputedStyle(element);
    const background = backgroundOf(element);
    const [red, green, blue, alpha] = channelsOf(style.color);
    const ratio = contrast(over([red, green, blue, alpha * opacityOf(element)], background), background);
    return ratio < (isLarge(style) ? minOfLargeText : minOfText) ? `text ${ratio.toFixed(2)}` : undefined;
  }

  function problemOfOutline(control) {
    const { outlineStyle, outlineColor, outlineWidth } = getComputedStyle(control);
    if (outlineStyle === "none" || parseFloat(outlineWidth) === 0) return "no outline";
    const background = backgroundOf(control.parentElement);
    const ratio = contrast(over(channelsOf(outlineColor), background), background);
    return ratio < minOfOutline ? `outline ${ratio.toFixed(2)}` : undefined;
  }

  const rulesOf = (rules) => [...rules].flatMap((rule) => [rule.selectorText ?? "", ...rulesOf(rule.cssRules ?? [])]);
  const selectors = [...document.styleSheets].flatMap((sheet) => rulesOf(sheet.cssRules));
  const isById = selectors.some((selector) => /#[\w-]/.test(selector));
  const told = new Set([
    "class",
    "type",
    ...(isById ? ["id"] : []),
    ...selectors
      .join()
      .matchAll(/(?<=\[)[\w-]+/g)
      .map(([name]) => name),
  ]);

  /** What the style sheets can tell an element by, but its place among its neighbours. */
  const kindOf = (element) => {
    const attributes = [...element.attributes].filter(({ name }) => told.has(name));
    return (
      element.tagName +
      attributes
        .map(({ name, value }) => `[${name}=${value}]`)
        .toSorted()
        .join("")
    );
  };
  const kindsAround = (element) => (element ? `${kindsAround(element.parentElement)} ${kindOf(element)}` : "");
  const hash = (text) => [...text].reduce((sum, character) => (Math.imul(sum, 31) + character.charCodeAt(0)) | 0, 7);
  const kindWithin = (control) =>
    hash([kindsAround(control), ...[...control.querySelectorAll("*")].map(kindOf), hasText(control)].join());

  /** Marks one control of each kind that is in a part of the page and not among those `known`; tells their kinds. */
  const mark = (part, known) => {
    const kinds = new Set(known);
    const unknown = [...document.querySelectorAll(`${part} :is(${controls})`)].filter((control) => {
      const kind = kindWithin(control);
      return isSeen(control) && !kinds.has(kind) && kinds.add(kind);
    });
    for (const control of unknown) control.dataset.looked = "";
    return [...kinds].slice(known.length);
  };

  const look = (state) => {
    const seen = [...document.querySelectorAll("[data-looked]")].filter((one) => isSeen(one) && canBe(state, one));
    return seen.flatMap((control) => {
      const texts = [control, ...control.querySelectorAll("*")].filter((one) => hasText(one) && isSeen(one));
      const problems = [...texts.map(problemOfText), state === "focus-visible" && problemOfOutline(control)];
      return problems.filter(Boolean).map((problem) => `${state}: ${nameOf(control)}: ${problem}`);
    });
  };
  return { mark, look };
})();
