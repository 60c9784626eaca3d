import type { Texts } from "./index.svelte";
import { shell } from "./zh/shell";
import { walk } from "./zh/walk";

export const zh: Texts = { shell, walk };
