/** Edits with undo and redo, as a value. */
import type { Edit } from "../protocol.generated";

export interface History {
  past: Edit[][];
  now: Edit[];
  future: Edit[][];
}

export function begin(now: Edit[] = []): History {
  return { past: [], now, future: [] };
}

export function step(history: History, now: Edit[]): History {
  if (JSON.stringify(now) === JSON.stringify(history.now)) return history;
  return { past: [...history.past, history.now], now, future: [] };
}

export function undo(history: History): History {
  const now = history.past.at(-1);
  return now ? { past: history.past.slice(0, -1), now, future: [history.now, ...history.future] } : history;
}

export function redo(history: History): History {
  const [now, ...future] = history.future;
  return now ? { past: [...history.past, history.now], now, future } : history;
}
