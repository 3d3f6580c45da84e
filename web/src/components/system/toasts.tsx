import { Button } from "@mantine/core";
import { type ReactNode, createContext, useCallback, useContext, useState } from "react";
import { useTranslations } from "use-intl";

type Toast = { id: number; text: string; undo?: () => void };

const Context = createContext<(text: string, undo?: () => void) => void>(() => {});

// useToast returns a function that shows a text for some seconds, with a button that undoes the change.
export const useToast = () => useContext(Context);

const shownFor = 8_000;
let last = 0;

export function Toasts({ children }: { children: ReactNode }) {
  const t = useTranslations("toast");
  const [toasts, setToasts] = useState<Toast[]>([]);
  const remove = useCallback((id: number) => setToasts((all) => all.filter((toast) => toast.id !== id)), []);
  const show = useCallback((text: string, undo?: () => void) => {
    const id = ++last;
    setToasts((all) => [...all, { id, text, undo }]);
    setTimeout(() => remove(id), shownFor);
  }, [remove]);
  return (
    <Context value={show}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {toasts.map(({ id, text, undo }) => (
          <div key={id} className="toast row">
            <span>{text}</span>
            {undo !== undefined && (
              <Button size="compact-sm" variant="default" onClick={() => (remove(id), undo())}>
                {t("undo")}
              </Button>
            )}
            <Button size="compact-sm" variant="default" onClick={() => remove(id)}>
              {t("close")}
            </Button>
          </div>
        ))}
      </div>
    </Context>
  );
}
