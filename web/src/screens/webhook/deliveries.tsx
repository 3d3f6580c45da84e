import { Button } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Failure } from "../../components/system/failure";
import { Filter } from "../../components/system/filter";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import { useToast } from "../../components/system/toasts";
import { useWords } from "../../components/system/words";
import { useFormat } from "../../i18n/format";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import { unreported } from "../../stream/unreported";

type Delivery = Schemas["WebhookDelivery"];
type Props = { webhook: Schemas["Webhook"] };

const statuses = ["pending", "delivered", "failed", "skipped"];

// Deliveries are the log of what was sent, with each attempt.
export function Deliveries({ webhook: { id, status: state } }: Props) {
  const t = useTranslations("webhooks");
  const { status } = useSearch({ from: "/webhooks/$id" });
  const navigate = useNavigate({ from: "/webhooks/$id" });
  return (
    <section className="stack">
      <h2>{t("deliveries")}</h2>
      <Filter label={t("show")} any={t("any")} values={statuses} value={status ?? ""} change={(status) => void navigate({ search: (old) => ({ ...old, status }), replace: true })} />
      <CursorTable
        label={t("deliveries")}
        queryKey={[...keys.webhookDeliveries(id), status ?? ""]}
        load={(cursor) => unwrap(api.GET("/api/v1/webhooks/{webhook_id}/deliveries", { params: { path: { webhook_id: id }, query: { status: status as Delivery["status"] | undefined, cursor, limit: 50 } } }))}
        columns={useColumns(state !== "disabled")}
        rowKey={(delivery) => delivery.id}
        refetchInterval={unreported.webhooks.every}
        empty={<Empty text={t("noDeliveries")} />}
      />
    </section>
  );
}

function useColumns(resends: boolean): Column<Delivery>[] {
  const t = useTranslations("webhooks");
  const word = useWords();
  return useMemo(
    () => [
      { id: "subject", header: t("subject"), cell: ({ event_type: subject }) => subject },
      { id: "status", header: t("status"), cell: ({ status }) => word(status) },
      { id: "created", header: t("created_at"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "attempts", header: t("attempts"), cell: ({ attempts }) => <Attempts attempts={attempts} /> },
      { id: "response", header: t("response"), cell: ({ attempts }) => attempts.at(-1)?.response },
      { id: "next", header: t("nextAttempt"), cell: ({ next_attempt_at: at }) => (at === undefined ? t("noNext") : <Time at={at} />) },
      ...(resends ? [{ id: "resend", header: t("act"), cell: (delivery: Delivery) => delivery.status !== "pending" && <Resend delivery={delivery} /> }] : []),
    ],
    [t, word, resends],
  );
}

function Attempts({ attempts }: { attempts: Delivery["attempts"] }) {
  const t = useTranslations("webhooks");
  const word = useWords();
  const format = useFormat();
  return (
    <>
      {attempts.map(({ attempted_at: at, result, status_code: status, latency_ms: milliseconds, error }) => (
        <div key={at}>
          {t("attempt", { at: format.dateTime(at), result: word(result), status: String(status ?? t("noResponse")), milliseconds: String(milliseconds) })} {error}
        </div>
      ))}
    </>
  );
}

function Resend({ delivery: { id, webhook_id: webhook, event_type: subject } }: { delivery: Delivery }) {
  const t = useTranslations("webhooks");
  const common = useTranslations("confirm");
  const toast = useToast();
  const action = useAction(
    (_: null, key) => unwrap(api.POST("/api/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/resend", { params: { path: { webhook_id: webhook, delivery_id: id }, header: { "X-Idempotency-Key": key } } })),
    [keys.webhookDeliveries(webhook)],
  );
  return (
    <>
      <Button variant="default" size="compact-sm" aria-label={common("title", { action: t("resend"), name: subject })} loading={action.pending} onClick={() => action.start(null, () => toast(t("resent")))}>
        {t("resend")}
      </Button>
      {action.error !== null && <Failure error={action.error} />}
    </>
  );
}
