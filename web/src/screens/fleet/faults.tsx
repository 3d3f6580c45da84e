import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Column, Rows } from "../../components/system/cursor-table";
import { Section } from "../../components/system/section";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import type { Part } from "../../query/model";
import { useSession } from "../../session/session";
import { DecideFault } from "./decide";

type Report = Schemas["FaultReport"];

// Faults are the open fault reports of tenants.
export function Faults({ part }: { part: Part<Schemas["FaultReportList"]> }) {
  const t = useTranslations("fleet");
  const texts = useTranslations("nodes");
  const { may } = useSession();
  const decides = may("decideFaultReport");
  const columns = useMemo(
    (): Column<Report>[] => [
      { id: "node", header: t("node"), cell: ({ node_name: name }) => name !== undefined && <Link to="/fleet/$name" params={{ name }}>{name}</Link> },
      { id: "gpu", header: t("gpu"), cell: ({ gpu }) => gpu ?? t("wholeNode") },
      { id: "allocation", header: texts("allocation"), cell: ({ allocation_id: id }) => <Link to="/admin/allocations/$id" params={{ id }}>{id}</Link> },
      { id: "message", header: t("message"), cell: ({ message }) => message },
      { id: "reported", header: t("reported"), cell: ({ reported_at }) => <Time at={reported_at} /> },
      ...(decides ? [{ id: "decide", header: texts("decide"), cell: (report: Report) => report.status === "open" && <DecideFault report={report} /> }] : []),
    ],
    [t, texts, decides],
  );
  return (
    <Section title={t("faults")} query={part} isEmpty={({ items }) => items.length === 0} empty={<Empty text={t("noFaults")} />}>
      {({ items }) => <Rows label={t("faults")} columns={columns} rows={items} rowKey={({ id }) => id} />}
    </Section>
  );
}
