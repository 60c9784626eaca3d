/** What all panels share about the model and the text that are open. */
import { cached } from "./api";
import { Query } from "./query.svelte";
import type { AttentionType, HighlightResponse, LayerDescription, ModelEntry, OutputDescription, PageToken, RunRequest, StackDescription, StackName, StructureResponse } from "./protocol.generated";
import { capital, number, percent, visible } from "./format";
import { words } from "./text/index.svelte";
import { urlState } from "./url_state.svelte";

/** A model, and the output of it that is shown. */
export type Structure = StructureResponse & OutputDescription;

export type Tokens = Partial<Record<StackName, PageToken[]>>;

/** Texts that the server has read. */
interface Opened {
  texts: RunRequest;
  tokens: Tokens;
  highlight: HighlightResponse | undefined;
  /** The token that the address names. */
  token: number | null;
}

/** What is selected: a text, and a place in the model that reads it. */
export interface Selection {
  run: RunRequest | null;
  tokens: Tokens;
  attentionType: AttentionType;
  stack: StackName;
  layer: number;
  head: number;
  token: number;
  position: number;
  row: number;
  end: 0 | 1;
}

class Session {
  private readonly modelsQuery = new Query("models", () => ({}));
  private readonly structureQuery = new Query("structure", () => (this.model ? { model: this.model } : null));
  private readonly tokensQuery = new Query("read", () => this.wanted);
  private readonly highlightQuery = new Query("highlight", () =>
    [urlState.token, urlState.layer, urlState.head].includes(null) ? this.asked(this.wanted) : null,
  );

  private readonly start = $derived(this.modelsQuery.value?.start);
  readonly models: ModelEntry[] = $derived(this.modelsQuery.value?.models ?? []);
  readonly model: string = $derived(checkpointOf(this.models, urlState.model || this.start?.model || ""));
  /** The entry of the model, or of the run folder that it is a checkpoint of. */
  readonly entry: ModelEntry | undefined = $derived(
    this.models.find((entry) => entry.id === this.model || entry.checkpoints.some(({ id }) => id === this.model)),
  );
  /** The model as the head has it that is chosen, or else the first. */
  readonly structure: Structure | undefined = $derived.by(() => {
    if (this.structureQuery.value?.model !== this.model) return undefined;
    const { outputs } = this.structureQuery.value;
    const wanted = urlState.output ?? (this.start?.model === this.entry?.id ? this.start?.output : undefined);
    return { ...this.structureQuery.value, ...(outputs.find(({ head }) => head === wanted) ?? outputs[0]) };
  });

  /** The texts that the address asks for; null until the model is known, or without a text. */
  readonly wanted: RunRequest | null = $derived.by(() => {
    if (!this.structure || !this.entry) return null;
    const sample = this.start?.model === this.entry.id ? this.start : this.entry.examples[0];
    const text = urlState.text ?? sample?.text ?? "";
    if (text === "" && !this.structure.reads.empty) return null;
    const own = urlState.text === null;
    const pair = urlState.pair ?? (own ? sample?.pair : undefined);
    const target = urlState.target ?? (own ? sample?.target : undefined);
    return {
      model: this.model,
      text,
      ...(pair && this.structure.reads.pair ? { pair } : {}),
      ...(target && this.structure.reads.target ? { target } : {}),
    };
  });
  /** Whether the server still reads the texts; `run` and `tokens` are those of the texts before. */
  readonly reading: boolean = $derived(this.tokensQuery.loading || this.highlightQuery.loading);
  private last: Opened | null = null;
  private readonly opened: Opened | null = $derived.by(() => {
    const { value, asked } = this.tokensQuery;
    if (!this.wanted || !value || !asked) this.last = null;
    else if (!this.reading) {
      const tokens = { encoder: value.encoder ?? undefined, decoder: value.decoder ?? undefined };
      this.last = { texts: asked, tokens, highlight: this.highlightQuery.value ?? this.highlightOf(asked), token: urlState.token };
    }
    return this.last;
  });
  /** The place of a text stays what it was when a layer or head of one's own choice needs no other. */
  private highlightOf(texts: RunRequest): HighlightResponse | undefined {
    const asked = this.asked(texts);
    return asked === null ? undefined : cached("highlight", asked);
  }

  /** What every question about a run has: the texts whose tokens are known, so that no position is beyond their end. */
  readonly run: RunRequest | null = $derived(this.asked(this.opened?.texts ?? null));
  readonly tokens: Tokens = $derived(this.opened?.tokens ?? {});
  private readonly highlight: HighlightResponse | undefined = $derived(this.opened?.highlight);

  /** The texts, and the head whose outputs are looked at if there are several. */
  private asked(texts: RunRequest | null): RunRequest | null {
    if (!texts || !this.structure) return null;
    const { head, outputs } = this.structure;
    return { ...texts, ...(head !== null && outputs.length > 1 ? { output: head } : {}) };
  }

  /** The selection, held to what this model and text have. */
  readonly attentionType = $derived.by(() => {
    const attentionTypes = this.structure?.attention_types ?? [];
    const wanted = urlState.stack ?? this.highlight?.attention_type ?? "decoder";
    return attentionTypes.includes(wanted) || attentionTypes.length === 0 ? wanted : attentionTypes.at(-1)!;
  });
  readonly stack: StackName = $derived.by(() => {
    const wanted = this.attentionType === "cross" ? "decoder" : this.attentionType;
    return this.structure && !this.structure.stacks[wanted] ? this.structure.last : wanted;
  });
  readonly stackDescription: StackDescription | undefined = $derived(this.structure?.stacks[this.stack]);
  readonly layers: number = $derived(this.stackDescription?.layers.length ?? 0);
  readonly layer: number = $derived(held(urlState.layer ?? this.highlight?.layer ?? 0, this.layers));
  readonly block: LayerDescription | undefined = $derived(this.stackDescription?.layers[this.layer]);
  readonly heads: number = $derived(
    (this.attentionType === "cross" ? this.block?.cross?.heads : this.block?.attention?.heads) ?? 0,
  );
  readonly head: number = $derived(held(urlState.head ?? this.highlight?.head ?? 0, this.heads));
  readonly token: number = $derived.by(() => {
    const chosen = this.opened?.token ?? (this.stack === this.structure?.last ? this.highlight?.position : undefined);
    return telling(this.tokens[this.stack] ?? [], chosen ?? null, this.structure);
  });

  /** The selected position of the stack that predicts, where the selection is in that one; its end otherwise. */
  readonly position: number = $derived.by(() => {
    const stack = this.structure?.last ?? this.stack;
    return this.stack === stack ? this.token : Math.max(0, (this.tokens[stack]?.length ?? 1) - 1);
  });
  /** Whether an answer's end is looked at, not its start. */
  readonly end: 0 | 1 = $derived(urlState.get("span.end") === "1" && (this.structure?.predicts.ends ?? 0) > 1 ? 1 : 0);
  /** Which row of what is predicted belongs to a position. */
  rowAt = (position: number): number => {
    const what = this.structure?.predicts.what;
    return what === "classify" ? 0 : what === "span" ? this.end : position;
  };
  readonly row: number = $derived(this.rowAt(this.position));
  /** All of what is selected, as one value. */
  readonly selection: Selection = $derived({
    run: this.run,
    tokens: this.tokens,
    attentionType: this.attentionType,
    stack: this.stack,
    layer: this.layer,
    head: this.head,
    token: this.token,
    position: this.position,
    row: this.row,
    end: this.end,
  });
  /** Whether what is chosen among is no vocabulary: labels, or the places of an answer. */
  readonly labeled: boolean = $derived(["tag", "classify", "span"].includes(this.structure?.predicts.what ?? ""));
  /** Whether there is one for every position. */
  readonly byPosition: boolean = $derived(!["classify", "span"].includes(this.structure?.predicts.what ?? ""));
  /** What is chosen, as people read it: of labels every character is seen, and a place of an answer is a token's. */
  outcome = (text: string, id?: number): string => {
    const { what, labels } = this.structure!.predicts;
    if (what === "span") return `${visible(text)} ${id}`;
    return labels.length > 0 ? text : visible(text);
  };

  /** How much a candidate counts, and how that is written: its share, or the number that a model says. */
  size = ({ logit, logprob }: { logit: number; logprob: number }): number => (this.structure!.predicts.number ? logit : Math.exp(logprob));
  written = (size: number): string => (this.structure!.predicts.number ? number(size) : percent(size));

  /** What is predicted at a place, as a sentence. */
  finding = (shown: Selection, best: { text: string; token: number; logit: number; logprob: number } | undefined, position = shown.position): string | undefined => {
    const { what } = this.structure!.predicts;
    const token = shown.tokens[this.structure!.last]?.[position];
    if (!what || !best || !token) return undefined;
    const t = words.t.predicts;
    return t.found(capital(this.placeOf(shown, position)), this.outcome(best.text, best.token), this.written(this.size(best)));
  };

  /** Where a prediction is made, as a sentence begins: of a whole text by the tokens it has. */
  placeOf = (shown: Selection, position = shown.position): string => {
    const { last, predicts: { what } } = this.structure!;
    const tokens = shown.tokens[last] ?? [];
    const own = tokens.filter(({ special }) => !special);
    const t = words.t.predicts;
    if (what === "classify" && own.length > 0) return t.whole(visible(own[0].text), visible(own.at(-1)!.text), own.length);
    return t.where[what!](visible(tokens[position]?.text ?? ""), shown.end);
  };

  readonly loading: boolean = $derived(this.modelsQuery.loading || this.structureQuery.loading || this.tokensQuery.loading);
  /** What is wrong with the server, the model or the text, the first of them. */
  readonly error: string | undefined = $derived(this.modelsQuery.error ?? this.structureQuery.error ?? this.tokensQuery.error);

  retry = (): void => {
    this.modelsQuery.retry();
    this.structureQuery.retry();
    this.tokensQuery.retry();
  };
}

/** A run folder stands for the last of its checkpoints; "" until the models are known. */
export function checkpointOf(models: readonly ModelEntry[], id: string): string {
  if (models.length === 0) return "";
  return models.find((entry) => entry.id === id)?.checkpoints.at(-1)?.id ?? id;
}

/** The token that was selected; else the first gap to fill, or the last token that is a word. */
function telling(tokens: PageToken[], selected: number | null, structure: Structure | undefined): number {
  if (selected !== null) return held(selected, tokens.length || Infinity);
  const gap = tokens.findIndex(({ id }) => id === structure?.mask?.token);
  return Math.max(0, gap >= 0 ? gap : tokens.findLastIndex(({ special }) => !special));
}

/** A whole number that counts from 0, held to what there is. */
export function held(index: number, count: number): number {
  return Math.max(0, Math.min(Math.floor(index), count - 1));
}

let made!: Session;
$effect.root(() => {
  made = new Session();
});
export const session = made;
