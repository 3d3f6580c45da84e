import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";
import { useFormat } from "../../i18n/format";
import { keys, refetch } from "../../query/keys";

type Refund = Schemas["Refund"];

// Refunds lists what operators have refunded. A tenant requests one from them.
export function Refunds() {
  const t = useTranslations("refunds");
  const format = useFormat();
  const word = useWords();
  const columns = useMemo(
    (): Column<Refund>[] => [
      { id: "at", header: t("at"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "amount", header: t("amount"), cell: ({ amount }) => format.money(amount), number: true },
      { id: "kind", header: t("kind"), cell: ({ kind }) => word(kind) },
      { id: "route", header: t("route"), cell: ({ route }) => word(route) },
      { id: "reason", header: t("reason"), cell: ({ reason }) => reason },
      { id: "state", header: t("state"), cell: ({ status, failure }) => (failure === undefined ? word(status) : t("failed", { state: word(status), failure })) },
    ],
    [t, format, word],
  );
  return (
    <section className="panel stack">
      <h2>{t("title")}</h2>
      <CursorTable
        label={t("title")}
        queryKey={keys.refunds}
        load={(cursor) => unwrap(api.GET("/api/v1/billing/refunds", { params: { query: { cursor, limit: 20 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        refetchInterval={refetch.live}
        empty={<p>{t("none")}</p>}
      />
      <Command text="gpuaas refund list" label={t("command")} />
    </section>
  );
}
