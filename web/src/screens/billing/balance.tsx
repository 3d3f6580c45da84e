import { lazy, Suspense } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { serverNow } from "../../api/clock";
import { Section } from "../../components/system/section";
import { Loading } from "../../components/system/states";
import { digitsOf, useFormat } from "../../i18n/format";
import type { Part } from "../../query/model";
import { type Point, projection } from "./projection";

const Chart = lazy(() => import("../../components/system/chart"));

export function Balance({ part }: { part: Part<Schemas["Balance"]> }) {
  const t = useTranslations("billing");
  const format = useFormat();
  return (
    <Section title={t("balance")} query={part}>
      {(balance) => (
        <div className="stack">
          <p className="figure">{format.minor(balance.amount_minor, balance.currency)}</p>
          {(balance.pending_minor ?? 0) > 0 && <p>{t("pending", { amount: format.minor(balance.pending_minor ?? 0, balance.currency) })}</p>}
          <dl className="facts">
            <dt>{t("month")}</dt>
            <dd>{format.minor(balance.spent_this_month_minor ?? 0, balance.currency)}</dd>
            <dt>{t("burn")}</dt>
            <dd>{t("perHour", { amount: format.minor(balance.burn_per_hour_minor, balance.currency) })}</dd>
            <dt>{t("runway")}</dt>
            <dd>{balance.runway_seconds === undefined ? t("endless") : format.duration(balance.runway_seconds)}</dd>
          </dl>
          <Projection balance={balance} />
        </div>
      )}
    </Section>
  );
}

function Projection({ balance }: { balance: Schemas["Balance"] }) {
  const t = useTranslations("billing");
  const format = useFormat();
  const points = projection(balance, serverNow());
  if (points.length === 0) return null;
  const warning = balance.low_threshold_minor ?? 0;
  const digits = 10 ** digitsOf(balance.currency);
  const line = (value: (point: Point) => number) => points.map((point) => value(point) / digits);
  return (
    <>
      <Suspense fallback={<Loading />}>
        <Chart
          title={t("projection")}
          names={[t("projectionLine"), t("warningLine")]}
          data={[points.map(({ at }) => at / 1_000), line(({ minor }) => minor), line(() => warning)]}
        />
      </Suspense>
      <details>
        <summary>{t("projectionTable")}</summary>
        <dl className="facts">
          {points.map(({ at, minor }) => (
            <Row key={at} at={format.dateTime(new Date(at).toISOString())} amount={format.minor(minor, balance.currency)} />
          ))}
        </dl>
      </details>
    </>
  );
}

function Row({ at, amount }: { at: string; amount: string }) {
  return (
    <>
      <dt>{at}</dt>
      <dd>{amount}</dd>
    </>
  );
}
