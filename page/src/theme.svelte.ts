/** Light or dark, by the system, and the colors that numbers are drawn in. */
import { interpolateRgb } from "d3-interpolate";

const darkScheme = window.matchMedia("(prefers-color-scheme: dark)");

class Theme {
  dark = $state(darkScheme.matches);
  /** Short movements are for those who did not ask for calm. */
  still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;

  constructor() {
    darkScheme.addEventListener("change", (event) => (this.dark = event.matches));
  }
}

export const theme = new Theme();

export type Palette = "diverging" | "sequential";
export type Rgb = [number, number, number];

const ENDS = {
  light: { low: ["#7c2d05", "#e8712b"], zero: "#f7fafb", high: ["#2b9bb0", "#064653"] },
  dark: { low: ["#ffd8bd", "#d9651f"], zero: "#1b262c", high: ["#1f8fa3", "#c9f5fb"] },
} as const;

const STEPS = 256;

/** From -1 (or 0 with `sequential`) to 1, in 256 steps. */
function ramp(dark: boolean, palette: Palette): Rgb[] {
  const ends = dark ? ENDS.dark : ENDS.light;
  const rising = leg(ends.zero, ends.high[0], ends.high[1]);
  const falling = leg(ends.zero, ends.low[1], ends.low[0]);
  return Array.from({ length: STEPS }, (_, step) => {
    const at = step / (STEPS - 1);
    if (palette === "sequential") return rising(at);
    return at < 0.5 ? falling(1 - 2 * at) : rising(2 * at - 1);
  });
}

function leg(from: string, middle: string, to: string): (at: number) => Rgb {
  const near = interpolateRgb(from, middle);
  const far = interpolateRgb(middle, to);
  return (at) => {
    const color = at < 0.6 ? near(at / 0.6) : far((at - 0.6) / 0.4);
    return color.match(/\d+/g)!.slice(0, 3).map(Number) as Rgb;
  };
}

const RAMPS: Record<string, Rgb[]> = {};

export function colors(dark: boolean, palette: Palette): Rgb[] {
  return (RAMPS[`${dark} ${palette}`] ??= ramp(dark, palette));
}

/** Where a value stands in a ramp, given the value at its end. */
export function stepOf(value: number, most: number, palette: Palette): number {
  const share = most > 0 ? Math.max(-1, Math.min(1, value / most)) : 0;
  const at = palette === "sequential" ? Math.max(0, share) : (share + 1) / 2;
  return Math.round(at * (STEPS - 1));
}

export function colorOf(value: number, most: number, palette: Palette, dark: boolean): string {
  const [r, g, b] = colors(dark, palette)[stepOf(value, most, palette)];
  return `rgb(${r} ${g} ${b})`;
}

/** Black or white, whichever reads better on a color: the contrast is 4.5 or more. */
export function inkOn([r, g, b]: Rgb): string {
  const light = [r, g, b].map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] > 0.179 ? "#000000" : "#ffffff";
}

/** Colors that tell heads apart, the same for a head in every panel. */
export function headColor(head: number, dark: boolean): string {
  const hue = (195 + head * 137.508) % 360;
  return dark ? `oklch(0.76 0.12 ${hue})` : `oklch(0.52 0.12 ${hue})`;
}
