import { attention } from "./en/attention";
import { edit } from "./en/edit";
import { lens } from "./en/lens";
import { next } from "./en/next";
import { positions } from "./en/positions";
import { shell } from "./en/shell";
import { walk } from "./en/walk";

/** Every word of the page in English. zh.ts has the same keys, or does not compile. */
export const en = { shell, walk, attention, next, lens, positions, edit };
