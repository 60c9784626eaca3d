/** A query of a panel, with the selection that its answer is about. */
import type { RouteName } from "./api";
import { Query } from "./query.svelte";
import { session, type Selection } from "./session.svelte";

export class PanelQuery<R extends RouteName> extends Query<R> {
  private kept: Selection | undefined;
  /** The selection when the answer came: what a panel writes beside the numbers of `value` is taken from here, so that
   *  old numbers do not stand under new captions while a newer answer is on its way. */
  readonly shown: Selection = $derived.by(() => {
    if (!this.loading || !this.kept) this.kept = session.selection;
    return this.kept;
  });
}
