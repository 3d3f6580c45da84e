import { type ReactNode, createContext, useContext, useState } from "react";

const Context = createContext<(text: string) => void>(() => {});

// useAnnounce returns a function whose text screen readers say, without moving the focus.
export const useAnnounce = () => useContext(Context);

// LiveRegion is on the page before its first text, because later ones are not read.
export function LiveRegion({ children }: { children: ReactNode }) {
  const [text, setText] = useState("");
  return (
    <Context value={setText}>
      {children}
      <div className="hidden" role="status" aria-live="polite">
        {text}
      </div>
    </Context>
  );
}
