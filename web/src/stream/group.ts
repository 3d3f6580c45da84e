// Leader has the connection of a group of tabs. greet sends the state to a tab that has joined.
export type Leader = { greet: () => void; stop: () => void };

type Lead<Message> = (tell: (message: Message) => void) => Leader;

const hello = "hello";

// join makes this tab one of its group. One tab leads it at a time, until it is closed, and every tab receives what the
// leader tells. A browser without locks or channels, or with blocked storage, has no group: each of its tabs leads alone.
export function join<Message>(name: string, receive: (message: Message) => void, lead: Lead<Message>): () => void {
  const channel = channelOf(name);
  const locks = navigator.locks as LockManager | null | undefined;
  if (channel === undefined || !locks) return alone(receive, lead);
  const left = new AbortController();
  let leader: Leader | undefined;
  let leave = () => left.abort();
  channel.onmessage = ({ data }: MessageEvent<Message | typeof hello>) => (data === hello ? leader?.greet() : receive(data));
  const tell = (message: Message) => {
    receive(message);
    channel.postMessage(message);
  };
  const held = () =>
    new Promise<void>((release) => {
      leader = lead(tell);
      left.signal.addEventListener("abort", () => release());
    });
  locks.request(name, { signal: left.signal }, held).catch(() => {
    if (!left.signal.aborted) leave = alone(receive, lead);
  });
  channel.postMessage(hello);
  return () => {
    leave();
    left.abort();
    leader?.stop();
    channel.close();
  };
}

function channelOf(name: string): BroadcastChannel | undefined {
  try {
    return new BroadcastChannel(name);
  } catch {
    return undefined;
  }
}

// alone leads while the tab is visible. A browser opens few connections to one server, and hidden tabs would use them up.
function alone<Message>(receive: (message: Message) => void, lead: Lead<Message>): () => void {
  const left = new AbortController();
  let leader: Leader | undefined;
  const change = () => {
    leader?.stop();
    leader = document.visibilityState === "hidden" ? undefined : lead(receive);
  };
  document.addEventListener("visibilitychange", change, { signal: left.signal });
  change();
  return () => {
    left.abort();
    leader?.stop();
  };
}
