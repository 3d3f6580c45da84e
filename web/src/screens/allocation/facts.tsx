import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { Copy } from "../../components/system/copy";
import { useNow } from "../../components/system/now";
import { Status } from "../../components/system/status";
import { Time } from "../../components/system/time";
import { useFormat } from "../../i18n/format";
import { costAt, hourly } from "./cost";

type Props = { allocation: Schemas["Allocation"]; receivedAt: number };

export function Facts({ allocation, receivedAt }: Props) {
  const t = useTranslations("allocation");
  const format = useFormat();
  const labels = Object.entries(allocation.labels);
  return (
    <section className="panel">
      <h2>{t("facts")}</h2>
      <dl className="facts">
        <dt>{t("state")}</dt>
        <dd>
          <Status status={allocation.status} /> <Time at={allocation.status_at} />
          {allocation.message !== undefined && <p>{allocation.message}</p>}
        </dd>
        <dt>{t("hardware")}</dt>
        <dd>{t("hardwareText", { count: allocation.gpus, sku: allocation.sku, region: allocation.region })}</dd>
        <dt>{t("price")}</dt>
        <dd>{t("priceText", { rate: format.money(hourly(allocation)), price: format.money(allocation.price) })}</dd>
        <dt>{t("cost")}</dt>
        <dd>
          <Cost allocation={allocation} receivedAt={receivedAt} />
          <p className="dim">{t("costNote")}</p>
        </dd>
        <dt>{t("expires")}</dt>
        <dd>{allocation.expires_at === undefined ? t("noExpiry") : <Time at={allocation.expires_at} />}</dd>
        <dt>{t("login")}</dt>
        <dd>{allocation.login}</dd>
        {allocation.mounts !== undefined && (
          <>
            <dt>{t("mounts")}</dt>
            <dd>
              {allocation.mounts.map(({ path, at, mode }) => (
                <div key={at}>{t(mode === "ro" ? "mountReadOnly" : "mountText", { at, folder: path === undefined || path === "" ? t("allFiles") : path })}</div>
              ))}
            </dd>
          </>
        )}
        {labels.length > 0 && (
          <>
            <dt>{t("labels")}</dt>
            <dd>{labels.map(([name, value]) => `${name}=${value}`).join(", ")}</dd>
          </>
        )}
        <dt>{t("id")}</dt>
        <dd>
          {allocation.id} <Copy text={allocation.id} label={t("copyId")} />
        </dd>
        <dt>{t("urn")}</dt>
        <dd>
          {allocation.urn} <Copy text={allocation.urn} label={t("copyUrn")} />
        </dd>
      </dl>
    </section>
  );
}

function Cost({ allocation, receivedAt }: Props) {
  const format = useFormat();
  useNow(1_000);
  // Both times are of the browser, so its error does not count.
  return <span className="figure">{format.money(costAt(allocation, receivedAt, Date.now()))}</span>;
}
