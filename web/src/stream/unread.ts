import { useSyncExternalStore } from "react";

// unread is the number of unread notifications of the user, at most 100. undefined means that no stream has sent it.
let unread: number | undefined;
const listeners = new Set<() => void>();

export function setUnread(next: number | undefined) {
  if (next === unread) return;
  unread = next;
  listeners.forEach((listener) => listener());
}

function onUnread(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export const currentUnread = () => unread;

export const useUnread = () => useSyncExternalStore(onUnread, currentUnread);
