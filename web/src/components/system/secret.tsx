import { Button } from "@mantine/core";
import { type ReactNode, useEffect, useRef } from "react";
import { useTranslations } from "use-intl";
import { Command } from "./copy";

type Props = { name: string; value: string; close: () => void; children?: ReactNode };

// Secret shows a secret that the server returns once. It is in no query, so a later screen does not show it. It replaces
// the form that had the focus, so it gets the focus. The heading of the screen gets it when the secret closes.
export function Secret({ name, value, close, children }: Props) {
  const t = useTranslations("secret");
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    ref.current?.focus();
    return () => document.querySelector("h1")?.focus();
  }, []);
  return (
    <div className="failure stack" role="group" aria-label={t("title", { name })} ref={ref} tabIndex={-1}>
      <p>
        <strong>{t("title", { name })}</strong>
      </p>
      <Command text={value} label={t("copy")} />
      <p>{t("once")}</p>
      {children}
      <Button variant="default" onClick={close}>
        {t("close")}
      </Button>
    </div>
  );
}
