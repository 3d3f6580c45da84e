import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Column, Rows } from "../../components/system/cursor-table";
import { Empty } from "../../components/system/states";

type Action = Schemas["PlanAction"];

// Steps are the actions of a plan of the control loop, in their order.
export function Steps({ steps }: { steps: Action[] }) {
  const t = useTranslations("change");
  const columns = useMemo(
    (): Column<Action>[] => [
      { id: "number", header: t("number"), cell: ({ number }) => number, number: true },
      { id: "verb", header: t("verb"), cell: ({ verb, event }) => [verb, event].filter(Boolean).join(" ") },
      { id: "object", header: t("object"), cell: ({ kind, object_id }) => [kind, object_id].join(" ") },
      { id: "why", header: t("why"), cell: ({ reason }) => reason },
      { id: "blocked", header: t("blocked"), cell: ({ blocked }) => blocked },
    ],
    [t],
  );
  return (
    <section className="panel">
      <h2>{t("steps")}</h2>
      {steps.length === 0 ? <Empty text={t("noSteps")} /> : <Rows label={t("steps")} columns={columns} rows={steps} rowKey={({ number }) => number} />}
    </section>
  );
}
