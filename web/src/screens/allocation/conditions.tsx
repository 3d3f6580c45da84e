import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Column, Rows } from "../../components/system/cursor-table";
import { Time } from "../../components/system/time";

type Condition = Schemas["Condition"];

export function Conditions({ conditions }: { conditions: Condition[] }) {
  const t = useTranslations("allocation");
  const columns = useMemo(
    (): Column<Condition>[] => [
      { id: "type", header: t("condition"), cell: ({ type }) => type },
      { id: "status", header: t("value"), cell: ({ status }) => status },
      { id: "reason", header: t("reason"), cell: ({ reason }) => reason },
      { id: "message", header: t("message"), cell: ({ message }) => message },
      { id: "at", header: t("changed"), cell: ({ last_transition_time }) => <Time at={last_transition_time} /> },
    ],
    [t],
  );
  return (
    <section className="panel">
      <h2>{t("conditions")}</h2>
      <Rows label={t("conditions")} columns={columns} rows={conditions} rowKey={({ type }) => type} />
    </section>
  );
}
