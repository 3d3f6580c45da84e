import { type RefObject, useCallback, useEffect, useRef, useState } from "react";
import { api, unwrap } from "../../api/client";
import { ApiError } from "../../api/error";
import { type Access, Connection, type State } from "../../terminal/connection";
import { type View, show } from "../../terminal/view";
import { styleNonce } from "../../theme/nonce";

// The session of an allocation in this tab, so that a reload resumes it.
const slot = (id: string) => `gpuaas.terminal.${id}`;

export type Use = {
  element: RefObject<HTMLDivElement | null>;
  view: RefObject<View | null>;
  state: State;
  now: () => void;
  restart: () => void;
  // pasted is a paste of several lines that waits for a decision.
  pasted: string | undefined;
  settle: (paste: boolean) => void;
};

// useTerminal keeps a terminal open while the screen is shown.
export function useTerminal(id: string, label: string): Use {
  const element = useRef<HTMLDivElement>(null);
  const view = useRef<View | null>(null);
  const connection = useRef<Connection | null>(null);
  const [state, setState] = useState<State>({ name: "connecting" });
  const [round, setRound] = useState(0);
  const [pasted, setPasted] = useState<string>();
  useEffect(() => {
    if (element.current === null) return;
    const shown = show(element.current, {
      label,
      nonce: styleNonce(),
      input: (bytes) => connection.current?.send(bytes),
      resize: (columns, rows) => connection.current?.resize(columns, rows),
      pasted: setPasted,
    });
    const opened = new Connection({
      access: (session) => accessTo(id, session),
      output: (bytes) => shown.write(bytes),
      started: ({ id: session }) => {
        sessionStorage.setItem(slot(id), session);
        // The replay repeats what the terminal has shown.
        shown.reset();
        shown.focus();
      },
      state: (next) => {
        if (next.name === "ended") sessionStorage.removeItem(slot(id));
        setState(next);
      },
      session: sessionStorage.getItem(slot(id)) ?? undefined,
    });
    opened.resize(...shown.size());
    view.current = shown;
    connection.current = opened;
    return () => {
      opened.close();
      shown.dispose();
      view.current = null;
      connection.current = null;
    };
  }, [id, label, round]);
  return {
    element,
    view,
    state,
    now: useCallback(() => connection.current?.now(), []),
    restart: useCallback(() => setRound((before) => before + 1), []),
    pasted,
    settle: (paste) => {
      if (paste && pasted !== undefined) view.current?.paste(pasted);
      setPasted(undefined);
      view.current?.focus();
    },
  };
}

// What another attempt does not change.
const final = new Set([400, 401, 403, 404, 409, 422]);

async function accessTo(id: string, session: string | undefined): Promise<Access> {
  try {
    const body = session === undefined ? { purpose: "shell" as const } : { purpose: "shell" as const, session_id: session };
    const { token, url } = await unwrap(api.POST("/api/v1/allocations/{id}/terminal-token", { params: { path: { id } }, body }));
    return { token, url };
  } catch (cause) {
    const error = cause instanceof ApiError ? cause : undefined;
    return { error: error?.message ?? "", final: error !== undefined && (final.has(error.status) || error.code === "concurrency_limit_reached") };
  }
}
