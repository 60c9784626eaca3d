/** Arrow keys in a row or grid of choices, of which one alone is reached by Tab. */

/** The index a key leads to, or null for a key that does not move. */
export function moved(key: string, from: number, count: number, columns = 1): number | null {
  if (count === 0) return null;
  const to: Record<string, number> = {
    ArrowLeft: from - 1,
    ArrowRight: from + 1,
    ArrowUp: from - columns,
    ArrowDown: from + columns,
    Home: 0,
    End: count - 1,
  };
  return key in to ? Math.max(0, Math.min(count - 1, to[key])) : null;
}

/** Handles a key on a container whose choices are `[data-choice]`, and moves the focus along. */
export function choose(event: KeyboardEvent, from: number, count: number, pick: (index: number) => void): void {
  const to = moved(event.key, from, count);
  if (to === null) return;
  event.preventDefault();
  pick(to);
  const choices = (event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[data-choice]");
  choices[to]?.focus();
}
