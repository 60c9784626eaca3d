/** A question that asks itself again when what it depends on changes. */
import { ask, Refusal, type Answered, type Asked, type Question } from "./api";
import { words } from "./text/index.svelte";

export class Answer<Q extends Question> {
  /** The latest answer; while a newer one is on its way, still the one before. */
  value = $state.raw<Answered<Q> | undefined>();
  error = $state<string | undefined>();
  loading = $state(false);
  private tries = $state(0);

  /** Made while a component is set up. `asked` returns null when there is nothing to ask yet. */
  constructor(question: Q, asked: () => Asked<Q> | null) {
    // By its text: a question that is made anew but says the same is not asked again.
    const wanted = $derived(JSON.stringify(asked()));
    $effect(() => {
      void this.tries;
      const body = JSON.parse(wanted) as Asked<Q> | null;
      if (body === null) {
        this.value = undefined;
        this.error = undefined;
        this.loading = false;
        return;
      }
      const stop = new AbortController();
      this.loading = true;
      ask(question, body, stop.signal)
        .then((value) => {
          if (stop.signal.aborted) return;
          this.value = value;
          this.error = undefined;
        })
        .catch((error: unknown) => {
          if (stop.signal.aborted) return;
          this.value = undefined;
          this.error = sentence(error);
        })
        .finally(() => {
          if (!stop.signal.aborted) this.loading = false;
        });
      return () => stop.abort();
    });
  }

  again = (): void => {
    this.tries += 1;
  };
}

/** An error as the page says it. */
export function sentence(error: unknown): string {
  if (error instanceof Refusal) return error.unreachable ? words.t.shell.unreachable : error.message;
  return error instanceof Error ? error.message : String(error);
}
