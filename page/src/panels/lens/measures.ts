/** What a cell of the lens can show, and how deep its color is. */
import { number, percent } from "../../format";
import type { LensResponse } from "../../protocol.generated";

export const MEASURES = ["probability", "chosen", "rank", "logit", "entropy", "divergence", "norm"] as const;
export type Measure = (typeof MEASURES)[number];

/** Measures of the wanted token; the others are of the whole cell. */
export const OF_TOKEN: readonly Measure[] = ["chosen", "rank", "logit"];

export function written(measure: Measure, value: number): string {
  if (measure === "rank") return value < 0 ? "–" : `#${value + 1}`;
  if (measure === "probability" || measure === "chosen") return percent(value);
  return number(value, 2);
}

/** From 0 to 1. Ranks by their logarithm: from 1 to 10 is as far as from 10 to 100. */
export function depths(response: LensResponse, measure: Measure): Float32Array {
  const { values } = response.arrays[measure];
  const out = new Float32Array(values.length);
  if (measure === "rank") {
    const worst = Math.log(1 + Math.max(...values, 1));
    for (let n = 0; n < out.length; n++) out[n] = values[n] < 0 ? 0 : 1 - Math.log(1 + values[n]) / worst;
  } else if (measure === "probability" || measure === "chosen") {
    for (let n = 0; n < out.length; n++) out[n] = Math.sqrt(values[n]);
  } else {
    let [low, high] = [Infinity, -Infinity];
    for (const value of values) if (Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
    if (measure !== "logit") low = Math.min(0, low);
    for (let n = 0; n < out.length; n++) out[n] = Number.isFinite(values[n]) ? (values[n] - low) / (high - low || 1) : 0;
  }
  return out;
}
