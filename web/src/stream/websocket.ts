import { type StreamEvent, messageOf } from "./sse";

// readSocket reads events over a websocket until it is closed, for networks that hold back server-sent events. The
// session cookie authenticates it.
export function readSocket(url: URL, signal: AbortSignal, heard: () => void, each: (event: StreamEvent) => void): Promise<void> {
  return new Promise((resolve) => {
    const socket = new WebSocket(url, "gpuaas.events.v1");
    signal.addEventListener("abort", () => socket.close(), { once: true });
    socket.onopen = heard;
    socket.onmessage = ({ data }: MessageEvent<unknown>) => {
      heard();
      const event = messageOf(data);
      if (event !== undefined) each(event);
    };
    socket.onerror = () => resolve();
    socket.onclose = () => resolve();
  });
}
