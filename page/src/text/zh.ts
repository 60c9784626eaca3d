import type { Texts } from "./index.svelte";
import { shell } from "./zh/shell";

export const zh: Texts = { shell };
