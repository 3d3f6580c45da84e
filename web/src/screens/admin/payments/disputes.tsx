import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../../api/client";
import { type Column, CursorTable } from "../../../components/system/cursor-table";
import { Empty } from "../../../components/system/states";
import { Time } from "../../../components/system/time";
import { useWords } from "../../../components/system/words";
import { useFormat } from "../../../i18n/format";
import { keys } from "../../../query/keys";
import { TenantLink } from "./tenant";

type Dispute = Schemas["Dispute"];

// Disputes are payments that the holder of a card disputes at the bank.
export function Disputes({ tenant }: { tenant: string | undefined }) {
  const t = useTranslations("payments");
  const format = useFormat();
  const word = useWords();
  const columns = useMemo(
    (): Column<Dispute>[] => [
      { id: "created", header: t("created"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "tenant", header: t("tenant"), cell: ({ tenant_id }) => <TenantLink id={tenant_id} /> },
      { id: "amount", header: t("amount"), cell: ({ amount }) => format.money(amount), number: true },
      { id: "stage", header: t("stage"), cell: ({ stage }) => word(stage) },
      { id: "since", header: t("since"), cell: ({ stage_at }) => <Time at={stage_at} /> },
      { id: "reason", header: t("reason"), cell: ({ reason }) => reason },
    ],
    [t, format, word],
  );
  return (
    <section className="panel">
      <h2>{t("disputes")}</h2>
      <CursorTable
        label={t("disputes")}
        queryKey={keys.disputes(tenant)}
        load={(cursor) => unwrap(api.GET("/api/v1/admin/disputes", { params: { query: { tenant_id: tenant, cursor, limit: 50 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        empty={<Empty text={t("noDisputes")} />}
      />
    </section>
  );
}
