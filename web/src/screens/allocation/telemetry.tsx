import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { serverNow } from "../../api/clock";
import { type Column, Rows } from "../../components/system/cursor-table";
import { Section } from "../../components/system/section";
import { Loading } from "../../components/system/states";
import { useFormat } from "../../i18n/format";
import { keys } from "../../query/keys";
import type { Part } from "../../query/model";
import { unreported } from "../../stream/unreported";
import { type Row, measures, seriesOf, tableOf } from "./readings";

const Chart = lazy(() => import("../../components/system/chart"));

const periods = [1, 6, 24];
const modelled = 1;
const hour = 3_600_000;

type Props = { id: string; latest: Part<Schemas["Telemetry"]>; ended?: string };

// periodOf counts back from the end of an allocation, or from now.
const periodOf = (hours: number, ended?: string) => ({
  from: new Date((ended === undefined ? serverNow() : Date.parse(ended)) - hours * hour).toISOString(),
  to: ended,
});

const intervalOf = (ended?: string) => ended === undefined && unreported.telemetry.every;

// Telemetry has the latest hour from the read model, and reads other periods by itself. The address has the period. A
// finished allocation has its last hours for as long as the platform stores them.
export function Telemetry({ id, latest, ended }: Props) {
  const t = useTranslations("allocation");
  const search = useSearch({ from: "/allocations/$id" });
  const navigate = useNavigate({ from: "/allocations/$id" });
  const hours = periods.find((each) => String(each) === search.hours) ?? modelled;
  const isModelled = hours === modelled && ended === undefined;
  const query = useQuery({
    queryKey: keys.telemetry(id, hours, ended),
    queryFn: () => unwrap(api.GET("/api/v1/allocations/{id}/telemetry", { params: { path: { id }, query: periodOf(hours, ended) } })),
    refetchInterval: () => intervalOf(ended),
    enabled: !isModelled,
  });
  return (
    <Section title={t("telemetry")} query={isModelled ? latest : query}>
      {({ gpus }) => (
        <div className="stack">
          <NativeSelect
            label={t("hours")}
            value={hours}
            onChange={(event) => void navigate({ search: { hours: event.currentTarget.value }, replace: true })}
            data={periods.map((value) => ({ value: String(value), label: t(ended === undefined ? "lastHours" : "finalHours", { hours: value }) }))}
          />
          {gpus.some(({ readings }) => readings.length > 0) ? <Charts gpus={gpus} /> : <p>{t(ended === undefined ? "noTelemetry" : "noFinalTelemetry")}</p>}
        </div>
      )}
    </Section>
  );
}

function Charts({ gpus }: { gpus: Schemas["GpuTelemetry"][] }) {
  const t = useTranslations("allocation");
  const names = gpus.map((_, index) => t("gpu", { number: index }));
  return (
    <>
      <Suspense fallback={<Loading />}>
        {measures.map((measure) => (
          <Chart key={measure} title={t(measure)} names={names} data={seriesOf(gpus, measure)} />
        ))}
      </Suspense>
      <details>
        <summary>{t("showTable")}</summary>
        <Readings rows={tableOf(gpus)} names={names} />
      </details>
    </>
  );
}

// Readings is the same data as the charts, for those who do not see them.
function Readings({ rows, names }: { rows: Row[]; names: string[] }) {
  const t = useTranslations("allocation");
  const format = useFormat();
  const columns = useMemo(
    (): Column<Row>[] => [
      { id: "at", header: t("at"), cell: ({ at }) => format.dateTime(at) },
      { id: "gpu", header: t("telemetry"), cell: ({ gpu }) => names[gpu] },
      ...measures.map((measure) => ({ id: measure, header: t(measure), number: true, cell: (row: Row) => format.number(row[measure], { maximumFractionDigits: 1 }) })),
      { id: "celsius", header: t("temperature"), number: true, cell: ({ celsius }) => format.number(celsius) },
    ],
    [t, format, names],
  );
  return <Rows label={t("readings")} columns={columns} rows={rows} rowKey={({ at, gpu }) => `${at} ${gpu}`} />;
}
