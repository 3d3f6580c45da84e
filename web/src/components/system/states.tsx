import { Button, Loader } from "@mantine/core";
import { type ReactNode, useEffect, useState } from "react";
import { useTranslations } from "use-intl";
import { RunbookLink } from "./runbook";

const slowAfter = 4_000;

// Loading says after some seconds that the server is slow.
export function Loading() {
  const t = useTranslations("states");
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), slowAfter);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div role="status" className="row" data-state="loading">
      <Loader size="sm" aria-hidden />
      <span>{slow ? t("slow") : t("loading")}</span>
    </div>
  );
}

export function Empty({ text, children }: { text: string; children?: ReactNode }) {
  return (
    <div data-state="empty">
      <p>{text}</p>
      {children}
    </div>
  );
}

export function Restricted({ message, field, role }: { message: string; field?: string; role?: string }) {
  const t = useTranslations("states");
  return (
    <div className="failure" data-state="restricted">
      <p>
        <strong>{t("restricted")}</strong>
      </p>
      <p>{message || t("restrictedWhy")}</p>
      {field !== undefined && <p>{t("field", { field })}</p>}
      {role !== undefined && <p>{role}</p>}
    </div>
  );
}

// Degraded is the state of a section that the server could not read, while it read the others.
export function Degraded({ message, runbook, retry }: { message: string; runbook: string; retry?: () => void }) {
  const t = useTranslations("states");
  return (
    <div className="failure" role="alert" data-state="degraded">
      <p>
        <strong>{t("degraded")}</strong>
      </p>
      <p>{message}</p>
      {runbook !== "" && (
        <p>
          <RunbookLink name={runbook} label={t("runbook", { name: runbook })} />
        </p>
      )}
      {retry !== undefined && (
        <Button variant="default" onClick={retry}>
          {t("retry")}
        </Button>
      )}
    </div>
  );
}

// RateLimited counts down to the time at which the server accepts the next call.
export function RateLimited({ seconds, retry }: { seconds: number; retry: () => void }) {
  const t = useTranslations("states");
  const [left, setLeft] = useState(seconds);
  useEffect(() => {
    if (left <= 0) return retry();
    const timer = setTimeout(() => setLeft(left - 1), 1_000);
    return () => clearTimeout(timer);
  }, [left, retry]);
  return (
    <p className="failure" role="status" data-state="rate_limited">
      {t("rateLimited", { seconds: Math.max(left, 0) })}
    </p>
  );
}
