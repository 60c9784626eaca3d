/** Numbers and tokens as people read them. */

const MINUS = "\u2212";

/** Three significant digits or so, never an exponent for ordinary numbers. */
export function number(value: number, digits = 3): string {
  if (Number.isNaN(value)) return "–";
  if (!Number.isFinite(value) || value <= -1e30) return value > 0 ? "∞" : `${MINUS}∞`;
  const size = Math.abs(value);
  let text: string;
  if (size === 0) text = "0";
  else if (size >= 1000) text = size.toLocaleString("en-US", { maximumFractionDigits: 0 });
  else if (size < 0.001) text = size.toExponential(1).replace("-", MINUS);
  else text = size.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(size))));
  return value < 0 && Number(text) !== 0 ? MINUS + text : text;
}

/** A share near 0 or 1 has a decimal, so that only a whole one is "100%". */
export function percent(share: number): string {
  if (share >= 0.9995) return share === 1 ? "100%" : ">99.9%";
  if (share > 0 && share < 0.0005) return "<0.1%";
  return `${(share * 100).toFixed(share < 0.1 || share >= 0.995 ? 1 : 0)}%`;
}

export function count(value: number): string {
  return value.toLocaleString("en-US");
}

/** 124,439,808 as 124.4M. */
export function short(value: number): string {
  for (const [size, unit] of [[1e9, "B"], [1e6, "M"], [1e3, "K"]] as const) {
    if (value >= size) return `${(value / size).toFixed(value / size < 100 ? 1 : 0)}${unit}`;
  }
  return String(value);
}

/** A token's text with what one cannot see made visible. */
export function visible(text: string): string {
  if (text === "") return "∅";
  return text.replace(/ /g, "·").replace(/\n/g, "↵").replace(/\t/g, "⇥");
}

/** A token of a text with its position, which tells it from the same token elsewhere. */
export function placed(text: string, position: number): string {
  return `${visible(text)} ${position}`;
}

export function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

export function shape(sizes: readonly number[]): string {
  return sizes.map(count).join(" × ");
}
