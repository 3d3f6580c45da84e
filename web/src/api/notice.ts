import { useSyncExternalStore } from "react";

// notice is the message of the platform to all users. Each response of the API has it; without one, it is empty.
let notice = "";
const listeners = new Set<() => void>();

// noteNotice reads the header, which is percent-encoded. A value that cannot be decoded is no message.
export function noteNotice(header: string | null) {
  const next = decoded(header ?? "");
  if (next === notice) return;
  notice = next;
  listeners.forEach((listener) => listener());
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

function onNotice(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export const useNotice = () => useSyncExternalStore(onNotice, () => notice);
