import { useQuery } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { Content } from "../components/system/section";
import { Restricted } from "../components/system/states";
import { keys, stale } from "../query/keys";
import { partOf } from "../query/model";
import { useSession } from "../session/session";
import { unreported } from "../stream/unreported";
import { AutoTopups } from "./billing/auto-topup";
import { Balance } from "./billing/balance";
import { Intervals } from "./billing/intervals";
import { Ledger } from "./billing/ledger";
import { Limits } from "./billing/limits";
import { Refunds } from "./billing/refunds";
import { Statements } from "./billing/statements";
import { TopUp } from "./billing/topup";
import { Usage } from "./billing/usage";

export function Billing() {
  const t = useTranslations("billing");
  const { may } = useSession();
  return (
    <div className="stack">
      <Heading title={t("title")} />
      {may("getBalance") ? <Overview /> : <Restricted message={t("restricted")} />}
    </div>
  );
}

function Overview() {
  const query = useQuery({ queryKey: keys.billingOverview, queryFn: () => unwrap(api.GET("/api/v3/billing/overview")), staleTime: stale.money, refetchInterval: unreported.balance.every });
  return <Content query={query}>{(model) => <Sections model={model} refetch={query.refetch} />}</Content>;
}

function Sections({ model, refetch }: { model: Schemas["BillingOverview"]; refetch: () => unknown }) {
  const t = useTranslations("billing");
  const intervals = useTranslations("intervals");
  const { may } = useSession();
  return (
    <div className="stack">
      <Balance part={partOf(model.balance, refetch)} />
      <Usage daily={partOf(model.usage, refetch)} />
      <section className="panel stack">
        <h2>{intervals("title")}</h2>
        <Intervals />
        <Command text="gpuaas usage intervals" label={intervals("command")} />
      </section>
      {may("createCheckoutSession") && <TopUp currency={model.balance.data?.currency ?? ""} payments={partOf(model.payments, refetch)} />}
      {may("listLedger") ? (
        <>
          <AutoTopups part={partOf(model.auto_topups, refetch)} />
          <Limits part={partOf(model.limits, refetch)} />
          <Refunds />
          <Ledger part={partOf(model.ledger, refetch)} />
          <Statements part={partOf(model.statements, refetch)} />
        </>
      ) : (
        <Restricted message={t("ledgerRestricted")} />
      )}
    </div>
  );
}
