import { shell } from "./en/shell";

/** Every word of the page in English. zh.ts has the same keys, or does not compile. */
export const en = { shell };
