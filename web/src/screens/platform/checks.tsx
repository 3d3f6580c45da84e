import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Column, Rows } from "../../components/system/cursor-table";
import { Section } from "../../components/system/section";
import { Time } from "../../components/system/time";
import type { Part } from "../../query/model";

type Health = Schemas["Health"];
type Check = Schemas["Check"];

// marks differ in form, not only in colour.
const marks: Record<string, string> = { ok: "●", degraded: "▲", down: "✕" };

// State shows the state of a check. One of a newer server has its own name.
export function State({ status }: { status: string }) {
  const t = useTranslations("platform");
  const known: Record<string, string> = { ok: t("ok"), degraded: t("degraded"), down: t("down") };
  return (
    <span className="status">
      <span aria-hidden>{marks[status] ?? "?"}</span>
      {known[status] ?? status}
    </span>
  );
}

// Checks are the checks of the platform, which operators read.
export function Checks({ part }: { part: Part<Health> }) {
  const t = useTranslations("platform");
  const columns = useMemo(
    (): Column<Check>[] => [
      { id: "name", header: t("check"), cell: ({ name }) => name },
      { id: "status", header: t("state"), cell: ({ status }) => <State status={status} /> },
      { id: "message", header: t("message"), cell: ({ message }) => message },
      { id: "since", header: t("since"), cell: ({ started_at }) => <Time at={started_at} /> },
    ],
    [t],
  );
  return (
    <Section title={t("checks")} query={part}>
      {({ checks }) => <Rows label={t("checks")} columns={columns} rows={checks} rowKey={({ name }) => name} />}
    </Section>
  );
}
