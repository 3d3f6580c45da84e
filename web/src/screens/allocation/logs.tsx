import { useCallback } from "react";
import { api, unwrap } from "../../api/client";
import { Logs } from "../logs/logs";
import type { Open } from "../logs/read";

const sources = ["agent", "login", "kernel"] as const;

// AllocationLogs are the logs of an allocation.
export function AllocationLogs({ id }: { id: string }) {
  const open = useCallback<Open>(
    (source, last, signal) =>
      unwrap(
        api.GET("/api/v1/allocations/{id}/logs", {
          params: { path: { id }, query: { source: source as (typeof sources)[number], follow: true }, header: { "Last-Event-ID": last } },
          headers: { Accept: "text/event-stream" },
          parseAs: "stream",
          signal,
        }),
      ).then((body) => body ?? new ReadableStream()),
    [id],
  );
  return <Logs sources={sources} open={open} />;
}
