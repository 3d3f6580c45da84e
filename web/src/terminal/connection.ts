import { serverNow } from "../api/clock";
import { type Started, bearerOf, code, messageOf, resizeOf, subprotocol } from "./protocol";

// State of a terminal. An ended one names its reason, and a replaced one goes on in another window.
export type State =
  | { name: "connecting" }
  | { name: "connected"; recorded: boolean }
  | { name: "reconnecting"; at: number }
  | { name: "replaced" }
  | { name: "ended"; reason: string; status?: number };

// Access is a token with the address of the websocket, or why there is none: an error that another attempt does not
// change ends the terminal.
export type Access = { token: string; url: string } | { error: string; final: boolean };

export type Options = {
  access: (session: string | undefined) => Promise<Access>;
  // output receives bytes of the terminal. Those of a resumed session repeat what the terminal has shown.
  output: (bytes: Uint8Array) => void;
  started: (session: Started) => void;
  state: (state: State) => void;
  session?: string;
};

const firstDelay = 500;
const longestDelay = 15_000;

// delayOf is the time until the next attempt in milliseconds. It is random, so that the clients of a restarted server do
// not return at once.
const delayOf = (failures: number) => Math.min(longestDelay, firstDelay * 2 ** failures) * (0.5 + Math.random() / 2);

// Connection keeps one session of a terminal open over any number of websockets.
export class Connection {
  private socket: WebSocket | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private failures = 0;
  private session: string | undefined;
  private size = "";
  private closed = false;

  constructor(private readonly options: Options) {
    this.session = options.session;
    void this.open();
  }

  send(bytes: Uint8Array<ArrayBuffer>) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(bytes);
  }

  resize(columns: number, rows: number) {
    this.size = resizeOf(columns, rows);
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(this.size);
  }

  // now ends the wait for the next attempt.
  now() {
    clearTimeout(this.timer);
    void this.open();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.socket?.close(1000);
  }

  private async open() {
    this.options.state({ name: "connecting" });
    const access = await this.options.access(this.session);
    if (this.closed) return;
    if ("error" in access) {
      if (access.final) this.end(access.error);
      else this.again();
      return;
    }
    const socket = this.dial(access.url, access.token);
    if (socket === undefined) return this.end("connect_failed");
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }: MessageEvent<unknown>) => this.receive(data);
    socket.onclose = ({ code }) => socket === this.socket && this.lost(code);
    this.socket = socket;
  }

  // dial returns no socket for an address or a token that no server sends.
  private dial(url: string, token: string) {
    try {
      return new WebSocket(url, [subprotocol, bearerOf(token)]);
    } catch {
      return undefined;
    }
  }

  private receive(data: unknown) {
    if (data instanceof ArrayBuffer) {
      this.options.output(new Uint8Array(data));
      return;
    }
    const message = typeof data === "string" ? messageOf(data) : undefined;
    if (message?.type === "session") {
      this.failures = 0;
      this.session = message.id;
      this.options.started(message);
      this.options.state({ name: "connected", recorded: message.recorded });
      // Programs repaint a resumed screen when its size is set.
      if (this.size !== "") this.socket?.send(this.size);
    } else if (message?.type === "exit") {
      this.end(message.reason, message.status);
    }
  }

  private lost(closeCode: number) {
    if (this.closed) return;
    switch (closeCode) {
      case code.replaced:
        this.closed = true;
        this.options.state({ name: "replaced" });
        return;
      case code.rights:
        return this.end("right_lost");
      case code.idle:
        return this.end("idle");
      case code.gone:
        // The server that had the session has ended: the next attempt opens a new session.
        if (this.session === undefined) return this.end("lost");
        this.session = undefined;
    }
    this.again();
  }

  private again() {
    const delay = delayOf(this.failures++);
    this.timer = setTimeout(() => void this.open(), delay);
    this.options.state({ name: "reconnecting", at: serverNow() + delay });
  }

  private end(reason: string, status?: number) {
    this.closed = true;
    this.socket?.close(1000);
    this.options.state(status === undefined ? { name: "ended", reason } : { name: "ended", reason, status });
  }
}
