import { Anchor } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command, Copy } from "../components/system/copy";
import { Section } from "../components/system/section";
import { Time } from "../components/system/time";
import { useFormat } from "../i18n/format";
import { keys, stale } from "../query/keys";
import { unreported } from "../stream/unreported";
import { isWebAddress } from "./billing/address";
import { outcomeOf } from "./billing/outcome";

type Payment = Schemas["PaymentSession"];

const waiting = new Set<string | undefined>(["initiated", "checkout_completed"]);
const intervalOf = (status: string | undefined) => waiting.has(status) && unreported.checkout.every;

// Payment is the screen to which the payment page returns. Its return is no evidence of a payment, so the state is that of
// the server, which the screen reads until it is final.
export function Payment() {
  const { id } = useParams({ from: "/payments/$id" });
  const { cancelled = false } = useSearch({ from: "/payments/$id" });
  const t = useTranslations("payment");
  const query = useQuery({
    queryKey: keys.payment(id),
    queryFn: () => unwrap(api.GET("/api/v1/payments/sessions/{id}", { params: { path: { id } } })),
    staleTime: stale.live,
    refetchInterval: ({ state }) => intervalOf(state.data?.status),
  });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <Section query={query}>{(payment) => <Outcome payment={payment} cancelled={cancelled} />}</Section>
      <Link to="/billing">{t("billing")}</Link>
      <Command text={`gpuaas payment get ${id}`} label={t("command")} />
    </div>
  );
}

function Outcome({ payment, cancelled }: { payment: Payment; cancelled: boolean }) {
  const t = useTranslations("payment");
  const format = useFormat();
  const outcome = outcomeOf(payment.status, cancelled);
  const amount = format.money(payment.amount);
  return (
    <div className="stack">
      <p role="status" data-outcome={outcome}>
        <strong>{outcome === undefined ? payment.status : t(`outcomes.${outcome}`, { amount })}</strong>
      </p>
      {outcome !== undefined && <p>{t(`next.${outcome}`)}</p>}
      {payment.reason !== undefined && <p className="dim">{payment.reason}</p>}
      {payment.url !== undefined && payment.status === "initiated" && isWebAddress(payment.url) && (
        <Anchor href={payment.url} rel="noreferrer">
          {t("continue")}
        </Anchor>
      )}
      <dl className="facts">
        <dt>{t("amount")}</dt>
        <dd>{amount}</dd>
        <dt>{t("created")}</dt>
        <dd>
          <Time at={payment.created_at} />
        </dd>
        {payment.credited_at !== undefined && (
          <>
            <dt>{t("credited")}</dt>
            <dd>
              <Time at={payment.credited_at} />
            </dd>
          </>
        )}
        <dt>{t("id")}</dt>
        <dd>
          {payment.id} <Copy text={payment.id} label={t("copyId")} />
        </dd>
        <dt>{t("urn")}</dt>
        <dd>
          {payment.urn} <Copy text={payment.urn} label={t("copyUrn")} />
        </dd>
      </dl>
    </div>
  );
}
