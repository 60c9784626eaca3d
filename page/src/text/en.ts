import { attention } from "./en/attention";
import { compare } from "./en/compare";
import { edit } from "./en/edit";
import { lens } from "./en/lens";
import { next } from "./en/next";
import { parameters } from "./en/parameters";
import { positions } from "./en/positions";
import { predicts } from "./en/predicts";
import { shell } from "./en/shell";
import { tour } from "./en/tour";
import { walk } from "./en/walk";

/** Every word of the page in English. zh.ts has the same keys, or does not compile. */
export const en = { attention, compare, edit, lens, next, parameters, positions, predicts, shell, tour, walk };
