import { compare } from "./en/compare";
import { parameters } from "./en/parameters";
import { shell } from "./en/shell";
import { tour } from "./en/tour";
import { walk } from "./en/walk";

/** Every word of the page in English. zh.ts has the same keys, or does not compile. */
export const en = { compare, parameters, shell, tour, walk };
