/** The page's colors for a canvas, which has no style sheet. */

export interface Ink {
  sheet: string;
  sheet2: string;
  ink: string;
  soft: string;
  faint: string;
  line: string;
  line2: string;
  accent: string;
  accentSoft: string;
  accentLine: string;
  warm: string;
  query: string;
  key: string;
  value: string;
}

const NAMES: Record<keyof Ink, string> = {
  sheet: "--sheet",
  sheet2: "--sheet-2",
  ink: "--ink",
  soft: "--soft",
  faint: "--faint",
  line: "--line",
  line2: "--line-2",
  accent: "--accent",
  accentSoft: "--accent-soft",
  accentLine: "--accent-line",
  warm: "--warm",
  query: "--query",
  key: "--key",
  value: "--value",
};

export const MONO = 'ui-monospace, "SF Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
export const SANS = '"Inter", ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

const known = new Map<boolean, Ink>();

/** `dark` is an argument, so that a canvas is painted again when it changes. */
export function inks(dark: boolean): Ink {
  let found = known.get(dark);
  if (!found) {
    const style = getComputedStyle(document.documentElement);
    const entries = Object.entries(NAMES).map(([name, property]) => [name, style.getPropertyValue(property).trim()]);
    found = Object.fromEntries(entries) as unknown as Ink;
    known.set(dark, found);
  }
  return found;
}

/** How wide the columns of a table are: all in sight where that leaves them legible; others scroll. */
export function fitting(room: number, columns: number): number {
  const share = room / Math.max(1, columns);
  if (share >= 58) return Math.floor(Math.min(share, 116));
  return room / Math.max(1, Math.floor(room / 92)); // none is cut where the scroll ends
}

/** Text that ends in … where it is too wide. */
export function fitted(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  if (ctx.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (ctx.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 0 ? `${text.slice(0, low)}…` : "…";
}

/** A token and a number beside it, between two edges of a cell; in a narrow one the token goes first. */
export function cell(ctx: CanvasRenderingContext2D, text: string, note: string, left: number, right: number, middle: number): void {
  ctx.font = `10.5px ${SANS}`;
  const beside = right - left - (note ? ctx.measureText(note).width + 5 : 0);
  ctx.font = `12px ${MONO}`;
  const alone = right - left < 72 && ctx.measureText(text).width > beside;
  ctx.textAlign = "left";
  ctx.fillText(fitted(ctx, text, alone ? right - left : beside), left, middle);
  if (alone) return;
  ctx.font = `10.5px ${SANS}`;
  ctx.textAlign = "right";
  ctx.fillText(note, right, middle);
}
