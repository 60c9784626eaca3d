/** Drawing a matrix on a canvas: cells as one image, stretched; names and numbers where they fit. */
import { number } from "../format";
import { colors, inkOn, stepOf, type Palette, type Rgb } from "../theme.svelte";

export interface Picture {
  values: ArrayLike<number>;
  rows: number;
  columns: number;
  most: number;
  /** What is taken from every value before it gets its color. */
  least?: number;
  palette: Palette;
  dark: boolean;
  rowNames?: readonly string[];
  columnNames?: readonly string[];
}

export interface Layout {
  left: number;
  top: number;
  cellWidth: number;
  cellHeight: number;
  width: number;
  height: number;
  /** Names of columns stand upright. */
  level: boolean;
}

export const NAME = 10; // the least cell, in pixels, that a name fits to
const FONT = '11px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

/** Values that are hidden by a mask are so low that nobody means them. */
export function hidden(value: number): boolean {
  return Number.isNaN(value) || value < -1e30;
}

/** The value at the end of the colors: the largest by size of those that are seen. */
export function largest(values: ArrayLike<number>): number {
  let most = 0;
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i]);
    if (size > most && size < 1e30) most = size;
  }
  return most;
}

export function smallest(values: ArrayLike<number>): number {
  let least = Infinity;
  for (let i = 0; i < values.length; i++) least = Math.min(least, values[i]);
  return least;
}

/** Shares: deep colors are for what gets clearly more than if all got the same. */
export function deepShare(values: ArrayLike<number>, keys: number): number {
  return Math.min(1, Math.max(largest(values), 2.5 / Math.max(1, keys)));
}

/** A name's width in letters; those of East Asia are wider. */
function widthOf(name: string): number {
  let width = 0;
  for (const letter of name) width += letter >= "\u2e80" ? 1.7 : 1;
  return width;
}

export function layout(
  { rows, columns, rowNames, columnNames }: Picture,
  room: number,
  wanted: { cell: number; height?: number },
): Layout {
  const wide = (names: readonly string[] | undefined) =>
    names ? Math.min(96, Math.max(...names.map(widthOf), 1) * 6.7 + 10) : 0;
  const left = wide(rowNames);
  const cellWidth = Math.max(0.25, Math.min(wanted.cell, (room - left - 1) / columns));
  const cellHeight = wanted.height ?? Math.max(1, cellWidth);
  const level = wide(columnNames) <= cellWidth + 4; // names that fit are not turned
  const top = !columnNames || cellWidth < NAME ? 0 : level ? 20 : Math.min(84, wide(columnNames));
  return { left, top, cellWidth, cellHeight, width: left + cellWidth * columns, height: top + cellHeight * rows, level };
}

export function paint(canvas: HTMLCanvasElement, picture: Picture, at: Layout): void {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(at.width * ratio));
  canvas.height = Math.max(1, Math.round(at.height * ratio));
  const pen = canvas.getContext("2d")!;
  pen.scale(ratio, ratio);
  const { rows, columns } = picture;
  if (rows * columns === 0) return;
  pen.imageSmoothingEnabled = at.cellWidth < 1 || at.cellHeight < 1;
  pen.imageSmoothingQuality = "high";
  pen.drawImage(image(picture), at.left, at.top, at.cellWidth * columns, at.cellHeight * rows);
  if (Math.min(at.cellWidth, at.cellHeight) >= 9) gaps(pen, picture, at);
  hatch(pen, picture, at);
  names(pen, picture, at);
  if (at.cellWidth >= 36 && at.cellHeight >= 16) numbers(pen, picture, at);
}

function image({ values, rows, columns, most, least = 0, palette, dark }: Picture): HTMLCanvasElement {
  const made = document.createElement("canvas");
  made.width = columns;
  made.height = rows;
  const pen = made.getContext("2d")!;
  const data = pen.createImageData(columns, rows);
  const ramp = colors(dark, palette);
  const none = blank(dark);
  for (let i = 0, to = 0; i < rows * columns; i++, to += 4) {
    const color = hidden(values[i]) ? none : ramp[stepOf(values[i] - least, most, palette)];
    data.data[to] = color[0];
    data.data[to + 1] = color[1];
    data.data[to + 2] = color[2];
    data.data[to + 3] = 255;
  }
  pen.putImageData(data, 0, 0);
  return made;
}

function blank(dark: boolean): Rgb {
  return dark ? [16, 23, 27] : [236, 240, 242];
}

/** Thin lines between cells, so that single ones can be told apart. */
function gaps(pen: CanvasRenderingContext2D, { rows, columns, dark }: Picture, at: Layout): void {
  pen.strokeStyle = dark ? "#141c20" : "#ffffff";
  pen.lineWidth = 1;
  pen.beginPath();
  for (let column = 0; column <= columns; column++) {
    const x = at.left + column * at.cellWidth;
    pen.moveTo(x, at.top);
    pen.lineTo(x, at.height);
  }
  for (let row = 0; row <= rows; row++) {
    const y = at.top + row * at.cellHeight;
    pen.moveTo(at.left, y);
    pen.lineTo(at.width, y);
  }
  pen.stroke();
}

function hatch(pen: CanvasRenderingContext2D, { values, rows, columns, dark }: Picture, at: Layout): void {
  if (Math.min(at.cellWidth, at.cellHeight) < 6) return;
  pen.strokeStyle = dark ? "#2b3940" : "#d3dce0";
  pen.lineWidth = 1;
  pen.beginPath();
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      if (!hidden(values[row * columns + column])) continue;
      const x = at.left + column * at.cellWidth;
      const y = at.top + row * at.cellHeight;
      pen.moveTo(x + 2, y + at.cellHeight - 2);
      pen.lineTo(x + at.cellWidth - 2, y + 2);
    }
  }
  pen.stroke();
}

function names(pen: CanvasRenderingContext2D, { rowNames, columnNames, dark }: Picture, at: Layout): void {
  pen.font = FONT;
  pen.fillStyle = dark ? "#a9b9c0" : "#4d5d66";
  pen.textBaseline = "middle";
  if (rowNames && at.cellHeight >= NAME) {
    pen.textAlign = "right";
    rowNames.forEach((name, row) => pen.fillText(cut(name), at.left - 6, at.top + (row + 0.5) * at.cellHeight));
  }
  if (columnNames && at.top > 0) {
    pen.textAlign = at.level ? "center" : "left";
    columnNames.forEach((name, column) => {
      pen.save();
      pen.translate(at.left + (column + 0.5) * at.cellWidth, at.top - (at.level ? 9 : 5));
      if (!at.level) pen.rotate(-Math.PI / 2);
      pen.fillText(cut(name), 0, 0);
      pen.restore();
    });
  }
}

function cut(name: string): string {
  return name.length > 12 ? `${name.slice(0, 11)}…` : name;
}

function numbers(pen: CanvasRenderingContext2D, picture: Picture, at: Layout): void {
  const ramp = colors(picture.dark, picture.palette);
  pen.font = FONT;
  pen.textAlign = "center";
  for (let row = 0; row < picture.rows; row++) {
    for (let column = 0; column < picture.columns; column++) {
      const value = picture.values[row * picture.columns + column];
      if (hidden(value)) continue;
      const text = number(value, 2);
      if (pen.measureText(text).width > at.cellWidth - 4) continue;
      pen.fillStyle = inkOn(ramp[stepOf(value - (picture.least ?? 0), picture.most, picture.palette)]);
      const x = at.left + (column + 0.5) * at.cellWidth;
      pen.fillText(text, x, at.top + (row + 0.5) * at.cellHeight + 0.5);
    }
  }
}
