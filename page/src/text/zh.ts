import type { Texts } from "./index.svelte";
import { attention } from "./zh/attention";
import { edit } from "./zh/edit";
import { lens } from "./zh/lens";
import { next } from "./zh/next";
import { positions } from "./zh/positions";
import { shell } from "./zh/shell";
import { walk } from "./zh/walk";

export const zh: Texts = { shell, walk, attention, next, lens, positions, edit };
