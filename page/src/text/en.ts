import type { PredictionKind } from "../protocol.generated";

/** The frame around the panels, and what all of them say. */
const shell = {
  tagline: "One Transformer, made of glass",
  model: "Model",
  output: "Output",
  step: (step: number) => `step ${step.toLocaleString("en-US")}`,
  text: "Text",
  pair: "Second sentence",
  target: "What the decoder has written",
  targetEmpty: "left empty: the model writes it itself",
  targetOwn: "written by the model",
  examples: "Examples",
  choose: "choose …",
  read: "Read",
  skip: "Skip to the panel",
  language: "Language",
  panels: "Panels",
  selection: "Selection",
  layer: "Layer",
  head: "Head",
  token: "Token",
  stack: "Where",
  stacks: { encoder: "Encoder", decoder: "Decoder", cross: "Cross" },
  kinds: { decoder: "decoder", encoder: "encoder", "encoder-decoder": "encoder-decoder" },
  tokensOf: { encoder: "Tokens the encoder reads", decoder: "Tokens the decoder reads" },
  tokenCount: (count: number) => (count === 1 ? "1 token" : `${count.toLocaleString("en-US")} tokens`),
  parameterCount: (count: string) => `${count} parameters`,
  loading: "Reading …",
  nothing: "Type a text above, and the model reads it.",
  retry: "Try again",
  unreachable: "The Glassformer server does not answer. Start it again with `glassformer open`, then try again.",
  noModels: "There is no model to look at. Start the page with one: `glassformer open MODEL`.",
  scale: { diverging: { low: "below zero", high: "above zero" }, sequential: { low: "none", high: "much" } },
  remove: "Remove",
  typeToken: "type a token",
  noSuchToken: "no token starts with this",
  rows: "row",
  columns: "column",
};

/** PredictionKind a model predicts: tokens, labels of tokens, labels of a text, an answer's start and end. */
const predicts = {
  tab: "Prediction",
  /** Where a prediction is made; of an answer, 1 is its end. */
  where: {
    next: (token: string) => `after “${token}”`,
    masked: (token: string) => `in the place of “${token}”`,
    tag: (token: string) => `of “${token}”`,
    classify: () => "of the text",
    span: (_: string, end: number) => (end ? "of where the answer ends" : "of where the answer starts"),
  } satisfies Record<PredictionKind, (token: string, end: number) => string> as Record<PredictionKind, (token: string, end: number) => string>,
  answer: "Answer's",
  ends: { start: "start", end: "end" },
  best: "the most probable",
  noLens: {
    classify: "There is no logit lens: it asks each layer's stream what it would predict at a position, and this model predicts of the whole text alone.",
    tag: "There is no logit lens: this model says one number of a token, and no layer could prefer another.",
    span: "There is no logit lens: where an answer starts or ends is a choice among all positions, and the lens reads one at a time.",
  },
};

/** The texts outside of the panels, in English. zh.ts has the same keys, or does not compile. */
export const en = { shell, predicts };
