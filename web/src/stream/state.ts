import { useSyncExternalStore } from "react";

// State of the connection: live while a stream is open, polling while none can be opened, ended without a session.
export type State = "connecting" | "live" | "polling" | "ended";

// failures is the number of failed connections in a row.
type Connection = { state: State; failures: number };

let connection: Connection = { state: "connecting", failures: 0 };
const listeners = new Set<() => void>();

export function setConnection(next: Connection) {
  if (next.state === connection.state && next.failures === connection.failures) return;
  connection = next;
  listeners.forEach((listener) => listener());
}

export function onConnection(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export const isLive = () => connection.state === "live";

export const useConnection = () => useSyncExternalStore(onConnection, () => connection);

// slower is how much longer an interval becomes while the server cannot be reached. A step lasts for several failures,
// because each new interval begins at its start.
const slower = () => (connection.failures > 10 ? 4 : connection.failures > 5 ? 2 : 1);

// unlessLive is the interval in milliseconds in which a screen asks again while no stream works, with backoff.
export const unlessLive = (every: number) => () => connection.state === "polling" && every * slower();
