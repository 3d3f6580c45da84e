import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Section } from "../../components/system/section";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";
import { keys } from "../../query/keys";
import type { Part } from "../../query/model";
import { unreported } from "../../stream/unreported";

type Report = Schemas["FaultReport"];

// Faults are the fault reports of the allocation, with what operators have decided.
export function Faults({ id, part }: { id: string; part: Part<Schemas["FaultReportList"]> }) {
  const t = useTranslations("allocation");
  const word = useWords();
  const columns = useMemo(
    (): Column<Report>[] => [
      { id: "reported", header: t("faultAt"), cell: ({ reported_at }) => <Time at={reported_at} /> },
      { id: "message", header: t("message"), cell: ({ message }) => message },
      { id: "gpu", header: t("faultOf"), cell: ({ gpu }) => gpu ?? t("faultNode") },
      { id: "decision", header: t("faultDecision"), cell: ({ status, decided_reason: reason }) => [word(status), reason].filter(Boolean).join(": ") },
    ],
    [t, word],
  );
  return (
    <Section title={t("faults")} query={part}>
      {(first) => (
        <CursorTable
          first={first}
          label={t("faults")}
          queryKey={keys.allocationFaults(id)}
          load={(cursor) => unwrap(api.GET("/api/v1/allocations/{id}/fault-reports", { params: { path: { id }, query: { cursor, limit: 50 } } }))}
          columns={columns}
          rowKey={({ id: report }) => report}
          refetchInterval={unreported.faults.every}
          empty={<p>{t("noFaults")}</p>}
        />
      )}
    </Section>
  );
}
