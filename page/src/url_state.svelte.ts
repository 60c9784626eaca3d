/** One text and one selection for all panels, mirrored in the address bar. */
import { formatAddress, parseAddress, type Address, type StackChoice } from "./address";

/** What is visited one after the other: steps of the walk and of writing, and the views of panels. */
const VISITED = /^walk\.at$|^next\.step$|\.view$/;

class UrlState {
  private address = $state<Address>(parseAddress(location.search));

  constructor() {
    window.addEventListener("popstate", () => (this.address = parseAddress(location.search)));
  }

  get panel(): string {
    return this.address.panel;
  }
  get model(): string {
    return this.address.model;
  }
  get text(): string | null {
    return this.address.text;
  }
  get pair(): string | null {
    return this.address.pair;
  }
  get target(): string | null {
    return this.address.target;
  }
  get output(): string | null {
    return this.address.output;
  }
  get stack(): StackChoice | null {
    return this.address.stack;
  }
  get token(): number | null {
    return this.address.token;
  }
  get layer(): number | null {
    return this.address.layer;
  }
  get head(): number | null {
    return this.address.head;
  }

  /** What a panel keeps for itself in the address, under `panel.name`. */
  get(key: string): string | undefined {
    return this.address.more[key];
  }

  /** A number that a panel keeps; the usual one where there is none. */
  number(key: string, usual: number): number {
    const value = Number(this.address.more[key] ?? NaN);
    return Number.isFinite(value) ? value : usual;
  }

  set(key: string, value: string | null): void {
    const { [key]: _, ...others } = this.address.more;
    this.change({ more: value === null ? others : { ...others, [key]: value } });
  }

  /** Like `set`, but never a step that "back" undoes. */
  replace(key: string, value: string): void {
    this.address.more = { ...this.address.more, [key]: value };
    history.replaceState(null, "", formatAddress(this.address));
  }

  /** Selecting replaces the address; another panel, model, text, view or step of the walk is a step that "back" undoes. */
  change(change: Partial<Address>): void {
    const before = formatAddress(this.address);
    const { more } = this.address;
    const step =
      (["panel", "model", "text", "pair", "target"] as const).some((key) => change[key] !== undefined && change[key] !== this.address[key]) ||
      (change.more !== undefined && Object.keys({ ...more, ...change.more }).some((key) => VISITED.test(key) && change.more![key] !== more[key]));
    Object.assign(this.address, change);
    const after = formatAddress(this.address);
    if (after === before) return;
    if (step) history.pushState(null, "", after);
    else history.replaceState(null, "", after);
  }
}

export const urlState = new UrlState();
