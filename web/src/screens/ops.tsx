import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { type Column, Rows } from "../components/system/cursor-table";
import { Content, Section } from "../components/system/section";
import { Empty } from "../components/system/states";
import { Time } from "../components/system/time";
import { useWords } from "../components/system/words";
import { useFormat } from "../i18n/format";
import { keys, stale } from "../query/keys";
import { type Part, partOf } from "../query/model";
import { unreported } from "../stream/unreported";
import { usePlanColumns } from "./changes/columns";
import { Faults } from "./fleet/faults";
import { Panels } from "./ops/panels";
import { Checks } from "./platform/checks";

type Entry = Schemas["Drift"];

export function Ops() {
  const t = useTranslations("ops");
  const query = useQuery({ queryKey: keys.ops, queryFn: () => unwrap(api.GET("/api/v3/platform/ops")), staleTime: stale.list, refetchInterval: unreported.health.every });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <Content query={query}>
        {({ overview, plans, drift, faults, health }) => (
          <div className="stack">
            <Panels part={partOf(overview, query.refetch)} />
            <Plans part={partOf(plans, query.refetch)} />
            <Drift part={partOf(drift, query.refetch)} />
            <Faults part={partOf(faults, query.refetch)} />
            <Checks part={partOf(health, query.refetch)} />
          </div>
        )}
      </Content>
    </div>
  );
}

function Plans({ part }: { part: Part<Schemas["PlanList"]> }) {
  const t = useTranslations("ops");
  const columns = usePlanColumns();
  return (
    <Section title={t("plans")} query={part} isEmpty={({ items }) => items.length === 0} empty={<Empty text={t("noPlans")} />}>
      {({ items }) => (
        <>
          <Rows label={t("plans")} columns={columns} rows={items} rowKey={({ id }) => id} />
          <Link to="/changes" search={{ status: "proposed" }}>
            {t("allPlans")}
          </Link>
        </>
      )}
    </Section>
  );
}

function Drift({ part }: { part: Part<Schemas["DriftList"]> }) {
  const t = useTranslations("ops");
  const format = useFormat();
  const word = useWords();
  const columns = useMemo(
    (): Column<Entry>[] => [
      { id: "object", header: t("object"), cell: ({ kind, name }) => t("objectText", { kind, name }) },
      { id: "field", header: t("field"), cell: ({ field }) => field },
      { id: "state", header: t("state"), cell: ({ policy }) => word(policy) },
      { id: "cost", header: t("cost"), cell: ({ cost_per_hour }) => (cost_per_hour === undefined ? t("noCost") : format.money(cost_per_hour)), number: true },
      { id: "since", header: t("since"), cell: ({ opened_at }) => <Time at={opened_at} /> },
    ],
    [t, format, word],
  );
  return (
    <Section title={t("drift")} query={part} isEmpty={({ items }) => items.length === 0} empty={<Empty text={t("noDrift")} />}>
      {({ items }) => (
        <>
          <Rows label={t("drift")} columns={columns} rows={items} rowKey={({ id }) => id} />
          <Link to="/drift">{t("allDrift")}</Link>
        </>
      )}
    </Section>
  );
}
