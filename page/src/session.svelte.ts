/** What all panels share about the model and the text that are open. */
import { Answer } from "./request.svelte";
import type { LayerFacts, ModelEntry, Run, StackFacts, StackName, Structure, Token } from "./protocol";
import { number, percent, visible } from "./format";
import { urlState } from "./url_state.svelte";

class Session {
  private readonly asked = new Answer("models", () => ({}));
  private readonly built = new Answer("structure", () => (this.model ? { model: this.model } : null));
  private readonly reading = new Answer("read", () => this.run);

  private readonly start = $derived(this.asked.value?.start);
  readonly models: ModelEntry[] = $derived(this.asked.value?.models ?? []);
  readonly model: string = $derived(checkpointOf(this.models, urlState.model || this.start?.model || ""));
  /** The entry of the model, or of the run folder that it is a checkpoint of. */
  readonly entry: ModelEntry | undefined = $derived(
    this.models.find((entry) => entry.id === this.model || entry.checkpoints.some(({ id }) => id === this.model)),
  );
  /** The model as the head has it that is chosen, or else the first. */
  readonly structure: Structure | undefined = $derived.by(() => {
    if (this.built.value?.model !== this.model) return undefined;
    const { outputs } = this.built.value;
    const wanted = urlState.output ?? (this.start?.model === this.entry?.id ? this.start?.output : undefined);
    return { ...this.built.value, ...(outputs.find(({ head }) => head === wanted) ?? outputs[0]) };
  });

  /** What every question about a run has; null until the model is known, or without a text. */
  readonly run: Run | null = $derived.by(() => {
    if (!this.structure || !this.entry) return null;
    const sample = this.start?.model === this.entry.id ? this.start : this.entry.examples[0];
    const text = urlState.text ?? sample?.text ?? "";
    if (text === "") return null;
    const own = urlState.text === null;
    const pair = urlState.pair ?? (own ? sample?.pair : undefined);
    const target = urlState.target ?? (own ? sample?.target : undefined);
    return {
      model: this.model,
      text,
      ...(pair && this.structure.reads.pair ? { pair } : {}),
      ...(target && this.structure.reads.target ? { target } : {}),
      ...(this.structure.head !== null && this.structure.outputs.length > 1 ? { output: this.structure.head } : {}),
    };
  });

  readonly tokens: Partial<Record<StackName, Token[]>> = $derived({
    encoder: this.reading.value?.encoder ?? undefined,
    decoder: this.reading.value?.decoder ?? undefined,
  });

  /** The selection, held to what this model and text have. */
  readonly sight = $derived.by(() => {
    const sights = this.structure?.sights ?? [];
    return sights.includes(urlState.stack) || sights.length === 0 ? urlState.stack : sights.at(-1)!;
  });
  readonly stack: StackName = $derived.by(() => {
    const wanted = this.sight === "cross" ? "decoder" : this.sight;
    return this.structure && !this.structure.stacks[wanted] ? this.structure.last : wanted;
  });
  readonly facts: StackFacts | undefined = $derived(this.structure?.stacks[this.stack]);
  readonly layers: number = $derived(this.facts?.layers.length ?? 0);
  readonly layer: number = $derived(held(urlState.layer, this.layers));
  readonly block: LayerFacts | undefined = $derived(this.facts?.layers[this.layer]);
  readonly heads: number = $derived(
    (this.sight === "cross" ? this.block?.cross?.heads : this.block?.attention?.heads) ?? 0,
  );
  readonly head: number = $derived(held(urlState.head, this.heads));
  readonly token: number = $derived(telling(this.tokens[this.stack] ?? [], urlState.token, this.structure));

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

  readonly loading: boolean = $derived(this.asked.loading || this.built.loading || this.reading.loading);
  /** What is wrong with the server, the model or the text, the first of them. */
  readonly error: string | undefined = $derived(this.asked.error ?? this.built.error ?? this.reading.error);

  again = (): void => {
    this.asked.again();
    this.built.again();
    this.reading.again();
  };
}

/** A run folder stands for the last of its checkpoints; "" until the models are known. */
export function checkpointOf(models: readonly ModelEntry[], id: string): string {
  if (models.length === 0) return "";
  return models.find((entry) => entry.id === id)?.checkpoints.at(-1)?.id ?? id;
}

/** The token that was selected; else the first gap to fill, or the last token that is a word. */
function telling(tokens: Token[], selected: number | null, structure: Structure | undefined): number {
  if (selected !== null) return held(selected, tokens.length || Infinity);
  const gap = tokens.findIndex(({ id }) => id === structure?.mask?.token);
  return Math.max(0, gap >= 0 ? gap : tokens.findLastIndex(({ special }) => !special));
}

function held(index: number, count: number): number {
  return Math.max(0, Math.min(index, count - 1));
}

let made!: Session;
$effect.root(() => {
  made = new Session();
});
export const session = made;
