import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { Content, Section } from "../components/system/section";
import { Status } from "../components/system/status";
import { Time } from "../components/system/time";
import { useFormat } from "../i18n/format";
import { keys, stale } from "../query/keys";
import { type Part, partOf } from "../query/model";
import { useSession } from "../session/session";
import { unreported } from "../stream/unreported";
import { hourly } from "./allocation/cost";
import { Invitations } from "./home/invitations";
import { Start } from "./home/start";

export function Home() {
  const t = useTranslations("home");
  const { me, may } = useSession();
  const query = useQuery({ queryKey: keys.overview, queryFn: () => unwrap(api.GET("/api/v3/compute/overview")), staleTime: stale.live, refetchInterval: unreported.balance.every });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <p>
        {me.user !== undefined && t("account", { name: me.user.name, email: me.user.email })}
        {me.tenant !== undefined && <>, {t("inTenant", { role: me.tenant.role, tenant: me.tenant.name })}</>}
      </p>
      {me.tenant === undefined && me.user !== undefined && <p role="status">{t("noTenant", { email: me.user.email })}</p>}
      <Invitations />
      <Content query={query}>
        {(model) => (
          <div className="stack">
            {me.tenant !== undefined && <Start model={model} />}
            <div className="cards">
              {may("listAllocations") && <Running part={partOf(model.allocations, query.refetch)} keyless={model.ssh_keys.data?.items.length === 0} />}
              {may("getBalance") && <Balance part={partOf(model.balance, query.refetch)} />}
            </div>
          </div>
        )}
      </Content>
    </div>
  );
}

function Running({ part, keyless }: { part: Part<Schemas["AllocationList"]>; keyless: boolean }) {
  const t = useTranslations("home");
  const { may } = useSession();
  return (
    <Section title={t("running")} query={part}>
      {({ items, next_cursor }) => (
        <div className="stack">
          {items.length === 0 && <p>{t("nothing")}</p>}
          {next_cursor === undefined ? <Total allocations={items} /> : <p>{t("newest", { count: items.length })}</p>}
          {items.length > 0 && (
            <ul>
              {items.map((each) => (
                <li key={each.id}>
                  <Live allocation={each} />
                </li>
              ))}
            </ul>
          )}
          {keyless && items.length > 0 && may("createAllocation") && (
            <p>
              {t("noKeys")} <Link to="/keys">{t("addKey")}</Link>
            </p>
          )}
          <div className="row">
            <Link to="/allocations" search={{ status: "active" }}>{t("allActive")}</Link>
            <Link to="/allocations">{t("all")}</Link>
            {may("createAllocation") && <Link to="/launch">{t("launch")}</Link>}
          </div>
          <Command text="gpuaas alloc list --status active" label={t("command")} />
        </div>
      )}
    </Section>
  );
}

// Total is what the active allocations use. A list with more pages has no total.
function Total({ allocations }: { allocations: Schemas["Allocation"][] }) {
  const t = useTranslations("home");
  const format = useFormat();
  const active = allocations.filter(({ status }) => status === "active");
  const currency = active[0]?.price.currency;
  if (currency === undefined) return null;
  const sum = (of: (each: Schemas["Allocation"]) => number) => active.reduce((total, each) => total + of(each), 0);
  return <p>{t("total", { count: active.length, gpus: sum(({ gpus }) => gpus), price: format.minor(sum((each) => hourly(each).amount_minor), currency) })}</p>;
}

function Live({ allocation }: { allocation: Schemas["Allocation"] }) {
  const t = useTranslations("home");
  return (
    <span className="row">
      <Link to="/allocations/$id" params={{ id: allocation.id }}>
        {allocation.name}
      </Link>
      <Status status={allocation.status} />
      <span>{t("gpus", { count: allocation.gpus })}</span>
      <Time at={allocation.status_at} />
    </span>
  );
}

function Balance({ part }: { part: Part<Schemas["Balance"]> }) {
  const t = useTranslations("home");
  const format = useFormat();
  const { may } = useSession();
  return (
    <Section title={t("balance")} query={part}>
      {(balance) => (
        <>
          <p className="figure">{format.minor(balance.amount_minor, balance.currency)}</p>
          <p>
            {balance.burn_per_hour_minor === 0
              ? t("noBurn")
              : t("burn", { amount: format.minor(balance.burn_per_hour_minor, balance.currency) })}
          </p>
          {balance.runway_seconds !== undefined && <p>{t("runway", { duration: format.duration(balance.runway_seconds) })}</p>}
          {balance.low && balance.low_threshold_minor !== undefined && (
            <p role="status">{t("low", { amount: format.minor(balance.low_threshold_minor, balance.currency) })}</p>
          )}
          {balance.releases_at !== undefined && <p role="status">{t.rich("releases", { when: () => <Time at={balance.releases_at ?? ""} /> })}</p>}
          {may("createCheckoutSession") && (
            <Button component={Link} to="/billing" variant="default">
              {t("topUp")}
            </Button>
          )}
        </>
      )}
    </Section>
  );
}
