/** Where the sheets of a stack stand, and what is left and right of them. */
import { tallFor } from "./lanes";

export const NAMES = 84; // room for the tokens' texts
export const STRIP = 54; // the pictures of the embedding and of the last vectors
export const TOP = 26;
const AIR = 30;

export interface Sheets {
  left: number;
  gap: number;
  sheet: number;
  width: number;
  height: number;
}

/** Sheets stand side by side while there is room, and overlap where there are many of them. */
export function sheetsOf(room: number, tokens: number, layers: number): Sheets {
  const height = tallFor(tokens, 26, 180, 340);
  const field = Math.max(240, room - NAMES - 2 * STRIP - 2 * AIR);
  const sheet = Math.max(56, Math.min(190, height * 0.72, field / layers + 4));
  const gap = layers > 1 ? Math.min(sheet + 40, (field - sheet) / (layers - 1)) : 0;
  const before = NAMES + STRIP + AIR;
  return { left: before + (field - sheet - gap * (layers - 1)) / 2, gap, sheet, width: before + field + AIR + STRIP, height };
}
