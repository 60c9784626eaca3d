/** Matrices as pixels: one pixel a cell, or the strongest of the cells that share one. */
import { colors, stepOf, type Palette } from "../theme.svelte";

/** At most `rows` x `columns` cells; each is the largest (by size) of those it stands for, so that a single
 * strong weight in a long text is never lost. */
export function shrink(
  values: ArrayLike<number>,
  height: number,
  width: number,
  rows: number,
  columns: number,
): { values: Float32Array; height: number; width: number } {
  const [h, w] = [Math.min(rows, height), Math.min(columns, width)];
  const out = new Float32Array(h * w);
  for (let i = 0; i < height; i++) {
    const row = Math.floor((i * h) / height) * w;
    for (let j = 0; j < width; j++) {
      const at = row + Math.floor((j * w) / width);
      const value = values[i * width + j];
      if (Math.abs(value) > Math.abs(out[at])) out[at] = value;
    }
  }
  return { values: out, height: h, width: w };
}

/** A canvas of exactly height x width pixels, to be drawn at any size without smoothing. */
export function picture(
  values: ArrayLike<number>,
  height: number,
  width: number,
  most: number,
  palette: Palette,
  dark: boolean,
): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, width);
  canvas.height = Math.max(1, height);
  const ramp = colors(dark, palette);
  const image = new ImageData(canvas.width, canvas.height);
  for (let n = 0; n < height * width; n++) {
    const value = values[n];
    const color = ramp[stepOf(Number.isFinite(value) ? value : 0, most, palette)];
    image.data.set(color, 4 * n);
    image.data[4 * n + 3] = 255;
  }
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  return canvas;
}
