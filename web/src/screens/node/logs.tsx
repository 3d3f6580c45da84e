import { useCallback } from "react";
import { api, unwrap } from "../../api/client";
import { Logs } from "../logs/logs";
import type { Open } from "../logs/read";

const sources = ["system", "agent", "helper", "kernel", "sshd", "fabricmanager", "persistenced"] as const;

// NodeLogs are the logs of a node.
export function NodeLogs({ name }: { name: string }) {
  const open = useCallback<Open>(
    (source, last, signal) =>
      unwrap(
        api.GET("/api/v1/admin/nodes/{name}/logs", {
          params: { path: { name }, query: { source: source as (typeof sources)[number], follow: true }, header: { "Last-Event-ID": last } },
          headers: { Accept: "text/event-stream" },
          parseAs: "stream",
          signal,
        }),
      ).then((body) => body ?? new ReadableStream()),
    [name],
  );
  return <Logs sources={sources} open={open} />;
}
