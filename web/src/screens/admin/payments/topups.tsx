import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../../api/client";
import { type Column, CursorTable } from "../../../components/system/cursor-table";
import { Remove } from "../../../components/system/remove";
import { useListControls } from "../../../components/system/list-controls";
import { Empty } from "../../../components/system/states";
import { Time } from "../../../components/system/time";
import { useWords } from "../../../components/system/words";
import { useFormat } from "../../../i18n/format";
import { type PaymentFilter, keys } from "../../../query/keys";
import { useSession } from "../../../session/session";
import { TenantLink } from "./tenant";

type TopUp = Schemas["AdminPaymentSession"];
type Status = "stuck" | Schemas["PaymentStatus"];

export function TopUps({ filter: { status, tenant } }: { filter: PaymentFilter }) {
  const t = useTranslations("payments");
  const format = useFormat();
  const word = useWords();
  const { may } = useSession();
  const reconciles = may("reconcilePaymentSession");
  const all = useMemo(
    (): Column<TopUp>[] => [
      { id: "created", header: t("created"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "tenant", header: t("tenant"), cell: ({ tenant_id }) => <TenantLink id={tenant_id} /> },
      { id: "amount", header: t("amount"), cell: ({ amount }) => format.money(amount), number: true },
      { id: "state", header: t("state"), cell: ({ status, reason }) => [word(status), reason].filter(Boolean).join(": ") },
      { id: "refunded", header: t("refunded"), cell: ({ refunded_minor: minor, amount: { currency } }) => minor !== undefined && format.minor(minor, currency), number: true },
      { id: "provider", header: t("provider"), cell: ({ payment, provider_session, livemode }) => [payment ?? provider_session, livemode ? undefined : t("test")].filter(Boolean).join(", ") },
      ...(reconciles ? [{ id: "reconcile", header: t("change"), cell: (topup: TopUp) => <Reconcile topup={topup} /> }] : []),
    ],
    [t, format, word, reconciles],
  );
  const [columns, controls] = useListControls("payments", all);
  return (
    <section className="panel stack">
      <h2>{t("sessions")}</h2>
      {controls}
      <CursorTable
        label={t("sessions")}
        queryKey={keys.paymentList({ status, tenant })}
        load={(cursor) => unwrap(api.GET("/api/v1/admin/payments/sessions", { params: { query: { status: status as Status | undefined, tenant_id: tenant, cursor, limit: 50 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        empty={<Empty text={t("noSessions")} />}
      />
    </section>
  );
}

// A credited or expired top-up is done.
const done = new Set(["credited", "expired"]);

function Reconcile({ topup: { id, status } }: { topup: TopUp }) {
  const t = useTranslations("payments");
  if (done.has(status)) return null;
  return (
    <Remove
      action={t("reconcile")}
      name={id}
      text={t("reconcileText")}
      done={t("isReconciled")}
      typed={false}
      run={(key) => unwrap(api.POST("/api/v1/admin/payments/sessions/{id}/reconcile", { params: { path: { id }, header: { "X-Idempotency-Key": key } } }))}
      invalidates={[keys.payments, keys.tenants]}
    />
  );
}
