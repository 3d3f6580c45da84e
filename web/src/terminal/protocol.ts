// The subprotocol of a terminal. Binary frames are bytes of the terminal, text frames are messages in JSON.
export const subprotocol = "gpuaas.terminal.v1";

// bearerOf is the subprotocol that carries a token, because a browser cannot send a header with a websocket.
export const bearerOf = (token: string) => `gpuaas.bearer.${btoa(token).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;

export type Started = { type: "session"; id: string; resumed: boolean; recorded: boolean };
export type Exit = { type: "exit"; status?: number; reason: string };

// messageOf reads a message of the server. Messages of a newer server are ignored.
export function messageOf(data: string): Started | Exit | undefined {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const { type, id, resumed, recorded, status, reason } = value as Record<string, unknown>;
  if (type === "session" && typeof id === "string") return { type, id, resumed: resumed === true, recorded: recorded === true };
  if (type === "exit" && typeof reason === "string") return typeof status === "number" ? { type, status, reason } : { type, reason };
  return undefined;
}

export const resizeOf = (columns: number, rows: number) => JSON.stringify({ type: "resize", columns, rows });

// Close codes of the server, apart from those of RFC 6455.
export const code = { rights: 4401, gone: 4404, idle: 4408, replaced: 4409 } as const;
