/** Where one stands in the walk: the stop and the column are in the address, the row is the selected token. */
import { flushSync } from "svelte";
import { PanelQuery } from "../../panel_query.svelte";
import type { LayerDescription, RunRequest, StackName, WalkStep } from "../../protocol.generated";
import { held, session, type Selection } from "../../session.svelte";
import { urlState } from "../../url_state.svelte";
import { theme } from "../../theme.svelte";
import { outward, stopsOf, withoutIdentities, type Stop, type Whole } from "./path";

export class Walk {
  private readonly query = new PanelQuery("walk", () =>
    session.run && session.block
      ? { ...session.run, stack: session.stack, layer: session.layer, head: session.head }
      : null,
  );
  /** The text and the place in the model that the steps belong to: all of the walk shows these, and asks about them. */
  readonly shown: Selection = $derived(this.query.shown);
  readonly run: RunRequest | null = $derived(this.query.value ? this.shown.run : null);
  readonly loading: boolean = $derived(this.query.loading);
  readonly block: LayerDescription | undefined = $derived(session.structure?.stacks[this.shown.stack]?.layers[this.shown.layer]);
  readonly steps: WalkStep[] = $derived(withoutIdentities(this.query.value?.steps ?? []));
  readonly stops: Stop[] = $derived(stopsOf(this.steps, this.shown.stack));
  readonly error: string | undefined = $derived(this.query.error);
  readonly retry = this.query.retry;

  readonly index: number = $derived(Math.max(0, this.find(urlState.get("walk.at") ?? "model")));
  readonly stop: Stop = $derived(this.stops[this.index]);
  readonly column: number | null = $derived.by(() => {
    const column = urlState.number("walk.column", -1);
    return column < 0 ? null : Math.floor(column);
  });

  /** What is predicted at the selected token. */
  readonly next = new PanelQuery(
    "next",
    () => (this.run && session.structure?.predicts.what ? { ...this.run, position: session.rowAt(this.row(session.structure.last)) } : null),
    { selection: () => this.shown },
  );
  readonly finding: string | undefined = $derived.by(() => {
    if (!session.structure) return undefined;
    const { next } = this;
    const position = session.byPosition ? next.asked?.position : next.shown.position;
    return session.finding(next.shown, next.value?.positions[0]?.candidates[0], position);
  });

  /** Whether an answer is about the texts whose tokens stand beside the pictures. */
  isOf(asked: RunRequest | undefined): boolean {
    return (["model", "text", "pair", "target", "output"] as const).every((name) => asked?.[name] === this.run?.[name]);
  }

  step(id: string): WalkStep | undefined {
    return this.steps.find((step) => step.id === id);
  }

  find(id: string): number {
    return this.stops.findIndex((stop) => stop.id === id);
  }

  /** The row of a picture whose rows are the tokens of this stack. */
  row(stack: StackName): number {
    if (stack === this.shown.stack) return this.shown.token;
    return held(urlState.number("walk.row", 0), this.shown.tokens[stack]?.length ?? 1);
  }

  pick(stack: StackName, row: number, column: number | null): void {
    if (stack === session.stack) urlState.change({ token: row });
    else urlState.set("walk.row", String(row));
    urlState.set("walk.column", column === null ? null : String(column));
  }

  closeCell(): void {
    urlState.set("walk.column", null);
  }

  go(id: string): void {
    const move = () => {
      urlState.set("walk.column", null);
      urlState.set("walk.at", id === "model" ? null : id);
    };
    if (theme.still || !document.startViewTransition) return move();
    // The next step may come before the last one has moved there: that movement is left out, and nobody minds.
    document.startViewTransition(() => flushSync(move)).ready.catch(() => undefined);
  }

  goBy(steps: number): void {
    const next = this.stops[this.index + steps];
    if (next) this.go(next.id);
  }

  out(): void {
    const whole: Whole | null = outward(this.stop);
    if (this.column !== null) this.closeCell();
    else if (whole) this.go(whole);
  }
}
