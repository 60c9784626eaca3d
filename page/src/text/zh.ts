import type { Texts } from "./index.svelte";
import { attention } from "./zh/attention";
import { compare } from "./zh/compare";
import { edit } from "./zh/edit";
import { lens } from "./zh/lens";
import { next } from "./zh/next";
import { parameters } from "./zh/parameters";
import { positions } from "./zh/positions";
import { predicts } from "./zh/predicts";
import { shell } from "./zh/shell";
import { tour } from "./zh/tour";
import { walk } from "./zh/walk";

export const zh: Texts = { attention, compare, edit, lens, next, parameters, positions, predicts, shell, tour, walk };
