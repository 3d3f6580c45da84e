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

type Refund = Schemas["Refund"];

export function Refunds({ tenant }: { tenant: string | undefined }) {
  const t = useTranslations("payments");
  const format = useFormat();
  const word = useWords();
  const columns = useMemo(
    (): Column<Refund>[] => [
      { id: "created", header: t("created"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "tenant", header: t("tenant"), cell: ({ tenant_id }) => <TenantLink id={tenant_id} /> },
      { id: "amount", header: t("amount"), cell: ({ amount }) => format.money(amount), number: true },
      { id: "kind", header: t("kind"), cell: ({ kind }) => word(kind) },
      { id: "route", header: t("route"), cell: ({ route }) => word(route) },
      { id: "state", header: t("state"), cell: ({ status, failure }) => [word(status), failure].filter(Boolean).join(": ") },
      { id: "reason", header: t("reason"), cell: ({ reason }) => reason },
      { id: "by", header: t("by"), cell: ({ requested_by }) => requested_by },
    ],
    [t, format, word],
  );
  return (
    <section className="panel">
      <h2>{t("refunds")}</h2>
      <CursorTable
        label={t("refunds")}
        queryKey={keys.adminRefunds(tenant)}
        load={(cursor) => unwrap(api.GET("/api/v1/admin/refunds", { params: { query: { tenant_id: tenant, cursor, limit: 50 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        empty={<Empty text={t("noRefunds")} />}
      />
    </section>
  );
}
