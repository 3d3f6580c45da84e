import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { Copy } from "../../components/system/copy";
import { type Fact, Facts } from "../../components/system/facts";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";
import { useFormat } from "../../i18n/format";
import { Placement, Slots } from "../fleet/slots";

type Props = { node: Schemas["Node"] };

// About shows lifecycle, health, reachability and occupancy as four values, because none follows from another.
export function About({ node }: Props) {
  const t = useTranslations("node");
  const format = useFormat();
  const word = useWords();
  const facts: Fact[] = [
    [t("lifecycle"), word(node.lifecycle)],
    [t("health"), word(node.health)],
    [t("reachability"), word(node.reachability)],
    [t("occupancy"), word(node.occupancy)],
    [t("slots"), <Slots node={node} />],
    [t("placement"), <Placement node={node} />],
    [t("message"), node.message || undefined],
    [t("evicts"), node.evicts_at && <Time at={node.evicts_at} />],
    [t("retires"), node.retires_at && t("retiresText", { when: format.dateTime(node.retires_at), reason: node.retires_reason ?? "" })],
    [t("sku"), node.sku],
    [t("region"), node.region],
    [t("domain"), node.failure_domain],
    [t("agent"), <Agent node={node} />],
    [t("report"), node.last_report_at === undefined ? t("never") : <Time at={node.last_report_at} />],
    [t("managed"), placeOf(node.source)],
    [t("address"), node.address],
    [
      t("id"),
      <>
        {node.id} <Copy text={node.id} label={t("copyId")} />
      </>,
    ],
  ];
  return (
    <section className="panel">
      <h2>{t("facts")}</h2>
      <Facts facts={facts} />
    </section>
  );
}

// Agent shows both versions while an update is under way.
function Agent({ node: { agent_version: reported, running_agent_version: running } }: Props) {
  const t = useTranslations("node");
  if (running === undefined || reported === undefined || running === reported) return <>{running ?? reported ?? t("never")}</>;
  return <>{t("agentText", { running, reported })}</>;
}

// placeOf is the owner of the declaration, and its file and line where Git has it.
const placeOf = (source: Schemas["Source"] | undefined) =>
  source && [source.owner, source.source, source.path && [source.path, source.line].filter(Boolean).join(":")].filter(Boolean).join(" ");
