/** Where the pictures of one part of a block stand, and what leads from one to the next. */
import { shape } from "../../format";
import type { WalkStep } from "../../protocol.generated";
import { drawnShape, plainKind, rowsOf, type Kind } from "./path";

export interface Column {
  id: string;
  step: WalkStep;
  x: number;
  width: number;
  /** How wide its caption may be without running into the next. */
  reach: number;
  /** Whether the names of its rows stand before it: they are tokens of another stack than those on the left. */
  gutter: boolean;
  /** Shares of attention: tokens by tokens. */
  pairs: boolean;
  /** Steps that share a picture: scores, scale, mask, softmax. */
  steps: WalkStep[];
}

export interface Link {
  from: Column;
  to: Column;
  /** Side by side, over the top (the stream), or around below what stands between. */
  way: "ribbon" | "over" | "under";
  /** How deep below, so that ways do not run into each other. */
  depth: number;
}

export const GUTTER = 66; // room for names of tokens
export const CAPTION = 72; // room for captions above the pictures
const LETTER = 6.4; // of a shape, in pixels
const SCORES: Kind[] = ["dot", "scale", "cap", "bias", "mask", "softmax"];

/** Values stand behind the pattern, so that what attention moves can be drawn from them to the sum. */
function reordered(columns: Column[]): Column[] {
  const values = columns.find(({ step }) => plainKind(step.kind) === "v");
  const pairs = columns.findIndex((column) => column.pairs);
  if (!values || pairs < 0) return columns;
  const others = columns.filter((column) => column !== values);
  others.splice(others.findIndex((column) => column.pairs) + 1, 0, values);
  return others;
}

/** `first` is what the part reads: the stream. `other` is what its end is added to, where that is not what it reads. */
export function columnsOf(first: WalkStep, steps: readonly WalkStep[], other: WalkStep | undefined, room: number, height: number): Column[] {
  let columns: Column[] = [];
  const column = (step: WalkStep): Column => ({ id: step.id, step, x: 0, width: 0, reach: 0, gutter: false, pairs: false, steps: [step] });
  columns.push(column(first));
  for (const step of steps) {
    const before = columns.at(-1)!;
    const scores = SCORES.includes(plainKind(step.kind));
    if (scores && before.pairs) {
      before.step = step;
      before.id = step.id;
      before.steps.push(step);
    } else columns.push({ ...column(step), pairs: scores });
  }
  columns = reordered(columns);
  if (other) columns.splice(-1, 0, column(other));
  columns.forEach((one, index) => {
    one.width = widthOf(one, height, room);
    one.gutter = rowsOf(one.step) !== rowsOf(first) && (index === 0 || rowsOf(columns[index - 1].step) === rowsOf(first));
  });
  const taken = columns.reduce((sum, { width, gutter }) => sum + width + (gutter ? GUTTER : 0), 0);
  const gap = columns.length > 1 ? Math.max(14, Math.min(240, (room - taken) / (columns.length - 1))) : 0;
  let x = 0;
  for (const [index, one] of columns.entries()) {
    const behind = columns[index + 1];
    const own = behind ? Math.max(gap, apart(one, behind)) : gap;
    if (one.gutter) x += GUTTER;
    one.x = x;
    one.reach = one.width + own - 4;
    x += one.width + own;
  }
  return columns;
}

/** So far that the shapes above them, which may be wider than the pictures, do not touch. */
function apart(...two: [Column, Column]): number {
  return two.reduce((sum, { step, width }) => sum + (shape(drawnShape(step)).length * LETTER - width) / 2, LETTER);
}

function widthOf({ step, pairs }: Column, height: number, room: number): number {
  const [rows, columns] = drawnShape(step);
  if (pairs) return Math.max(90, Math.min(room * 0.22, (height * columns) / Math.max(1, rows), 260));
  return Math.round(Math.max(26, Math.min(96, 10 * Math.log2(1 + columns / 4))));
}

export function linksOf(columns: readonly Column[]): Link[] {
  const links: Link[] = [];
  let depth = 0;
  columns.forEach((to, index) => {
    const sources = new Set(to.steps.flatMap(({ inputs }) => inputs));
    for (const [at, from] of columns.entries()) {
      if (at >= index || !from.steps.some(({ id }) => sources.has(id))) continue;
      const sum = plainKind(to.step.kind).startsWith("residual") && at === 0;
      const way = sum ? "over" : index - at === 1 ? "ribbon" : "under";
      links.push({ from, to, way, depth: way === "under" ? depth++ : 0 });
    }
  });
  return links;
}

/** How tall a picture is that has a lane for each token: some more than `most`, if that is what names need. */
export function tallFor(tokens: number, lane: number, least: number, most: number): number {
  return Math.max(least, Math.min(most, tokens * lane), Math.min(460, tokens * 12));
}

/** The middle of a token's lane. */
export function laneOf(step: WalkStep, row: number, height: number): number {
  return ((row + 0.5) * height) / Math.max(1, drawnShape(step)[0]);
}

