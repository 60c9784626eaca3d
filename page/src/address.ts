/** The address bar as data: what a link holds, so that it shows the same thing. */

export const STACKS = ["encoder", "decoder", "cross"] as const;
/** Where attention is looked at; `cross` is the decoder looking into the encoder. */
export type StackChoice = (typeof STACKS)[number];

export interface Address {
  /** A name of `PANELS` (panels.ts); any other name opens the first panel. */
  panel: string;
  model: string;
  text: string | null; // null: the model's own sample
  pair: string | null;
  target: string | null;
  output: string | null; // the head whose outputs are looked at; null: the first
  /** Of these, null is what the server finds to tell most about the prediction (`highlight`). */
  stack: StackChoice | null;
  token: number | null;
  layer: number | null;
  head: number | null;
  /** What single panels keep, e.g. `walk.step`. */
  more: Record<string, string>;
}

export const START: Address = {
  panel: "walk",
  model: "",
  text: null,
  pair: null,
  target: null,
  output: null,
  stack: null,
  token: null,
  layer: null,
  head: null,
  more: {},
};

function index(value: string | null): number | null {
  if (value === null) return null;
  const number = Number(value);
  return Number.isInteger(number) && number >= 0 ? number : 0;
}

/** What a query string says; what it does not say, or says wrongly, is as at the start. */
export function parseAddress(search: string): Address {
  const query = new URLSearchParams(search);
  const more: Record<string, string> = {};
  for (const [key, value] of query) if (key.includes(".")) more[key] = value;
  return {
    panel: query.get("panel") ?? START.panel,
    model: query.get("model") ?? "",
    text: query.get("text"),
    pair: query.get("pair"),
    target: query.get("target"),
    output: query.get("output"),
    stack: STACKS.find((stack) => stack === query.get("stack")) ?? null,
    token: index(query.get("token")),
    layer: index(query.get("layer")),
    head: index(query.get("head")),
    more,
  };
}

export function formatAddress(address: Address): string {
  const query = new URLSearchParams({ panel: address.panel });
  for (const key of ["model", "text", "pair", "target", "output"] as const) {
    const value = address[key];
    if (value || (key === "text" && value !== null)) query.set(key, value);
  }
  for (const key of ["stack", "token", "layer", "head"] as const) {
    if (address[key] !== null) query.set(key, String(address[key]));
  }
  for (const key of Object.keys(address.more).sort()) query.set(key, address.more[key]);
  return `?${query}`;
}
