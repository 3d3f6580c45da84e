import type { QueryClient } from "@tanstack/react-query";
import { keys } from "../query/keys";
import { type Message, type Scope, follow } from "./connection";
import { join } from "./group";
import { gather, readFailed, refresh, retime } from "./refresh";
import { onConnection, setConnection } from "./state";
import { keysOf } from "./table";
import { setUnread } from "./unread";

// The empty key is the beginning of all keys.
const all = [[]];

// startLive keeps the screens up to date with one stream for all tabs of a user. It returns how to stop.
export function startLive(client: QueryClient, user: string, scope: Scope): () => void {
  const changed = gather((key) => refresh(client, key));
  let cursor = "";
  const receive = (message: Message) => {
    if (message.kind === "missed") changed.add(all);
    if (message.kind === "denied") changed.add([keys.me]);
    if (message.kind === "state") {
      cursor = message.cursor;
      setConnection({ state: message.state, failures: message.failures });
      if (message.state === "live") readFailed(client);
    }
    if (message.kind === "event") {
      const { id, subject, payload } = message.event;
      if (id !== "") cursor = id;
      if (subject === "unread" && typeof payload["unread"] === "number") setUnread(payload["unread"]);
      changed.add(keysOf(message.event));
    }
  };
  const forget = onConnection(() => retime(client));
  const leave = join(`gpuaas.events.${user}.${scope}`, receive, (tell) => follow(scope, cursor, tell));
  return () => {
    leave();
    forget();
    changed.stop();
    setConnection({ state: "connecting", failures: 0 });
    setUnread(undefined);
  };
}
