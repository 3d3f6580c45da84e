import type { QueryClient, QueryKey } from "@tanstack/react-query";

// soon gathers the events of one transaction. between is the time from one reading to the next in a burst, so that 50
// events per second cause 2 readings per second. Both are in milliseconds.
const soon = 20;
const between = 500;

// gather returns a function that collects keys, and passes each of them once to use. A hidden tab waits until it is shown.
export function gather(use: (key: QueryKey) => void) {
  const found = new Map<string, QueryKey>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let usedAt = 0;
  const flush = () => {
    timer = undefined;
    if (document.visibilityState === "hidden" || found.size === 0) return;
    usedAt = Date.now();
    const now = [...found.values()];
    found.clear();
    now.forEach(use);
  };
  const start = () => (timer ??= setTimeout(flush, Math.min(between, Math.max(soon, usedAt + between - Date.now()))));
  document.addEventListener("visibilitychange", start);
  return {
    add: (all: readonly QueryKey[]) => {
      all.forEach((key) => found.set(JSON.stringify(key), key));
      start();
    },
    stop: () => {
      document.removeEventListener("visibilitychange", start);
      clearTimeout(timer);
    },
  };
}

// refresh reads the visible queries of a key again. A reading that has begun may have missed the change: it is not
// cancelled, because a busy screen would never get data, and the query is read once more after it.
export function refresh(client: QueryClient, queryKey: QueryKey) {
  const busy = client.getQueryCache().findAll({ queryKey, fetchStatus: "fetching" });
  void client.invalidateQueries({ queryKey }, { cancelRefetch: false });
  for (const query of busy) {
    const again = () => void client.invalidateQueries({ queryKey: query.queryKey, exact: true }, { cancelRefetch: false });
    void query.promise?.then(again, () => {});
  }
}

// readFailed reads again what failed while the server could not be reached. No event reports it.
export const readFailed = (client: QueryClient) => void client.refetchQueries({ type: "active", predicate: ({ state }) => state.status === "error" }, { cancelRefetch: false });

// retime makes the visible queries compute their interval again.
export const retime = (client: QueryClient) =>
  client
    .getQueryCache()
    .findAll({ type: "active" })
    .forEach(({ observers }) => observers.forEach((observer) => observer.setOptions(observer.options)));
