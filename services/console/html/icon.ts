import { assets } from "./assets.ts";
import { html, type Markup } from "./html.ts";

/** Names of the symbols in static/icons.svg that pages show. */
export type IconName =
  | "activity"
  | "bell"
  | "boxes"
  | "building-2"
  | "chart-column"
  | "chevrons-up-down"
  | "clapperboard"
  | "credit-card"
  | "gauge"
  | "key-round"
  | "layout-dashboard"
  | "log-out"
  | "menu"
  | "message-square"
  | "plus"
  | "receipt-text"
  | "rocket"
  | "search"
  | "server"
  | "shield-check"
  | "ticket"
  | "user-round"
  | "users";

/** A picture beside words that say the same: nobody hears it. */
export const icon = (name: IconName): Markup =>
  html`<svg class="icon" aria-hidden="true"><use href="${assets.iconsUrl}#${name}"></use></svg>`;
