import type { Texts } from "./index.svelte";
import { compare } from "./zh/compare";
import { parameters } from "./zh/parameters";
import { shell } from "./zh/shell";
import { tour } from "./zh/tour";
import { walk } from "./zh/walk";

export const zh: Texts = { compare, parameters, shell, tour, walk };
