import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { Copy } from "../../components/system/copy";
import { type Fact, Facts } from "../../components/system/facts";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";

export function About({ webhook }: { webhook: Schemas["Webhook"] }) {
  const t = useTranslations("webhooks");
  const word = useWords();
  const { id, urn, public_key: key } = webhook;
  const time = (at: string | undefined) => at && <Time at={at} />;
  const facts: Fact[] = [
    [t("status"), word(webhook.status)],
    [t("url"), webhook.url],
    [t("events"), webhook.events.join(", ")],
    [t("project"), webhook.project_id ?? t("allProjects")],
    [t("format"), word(webhook.format)],
    [t("signature"), webhook.signature in signatures ? t(signatures[webhook.signature]) : webhook.signature],
    [t("publicKey"), key && <>{key} <Copy text={key} label={t("copyKey")} /></>],
    [t("previous"), time(webhook.previous_secret_expires_at)],
    [t("failing"), time(webhook.failing_since)],
    [t("disabledAt"), time(webhook.disabled_at)],
    [t("disabledReason"), webhook.disabled_reason && word(`webhook_${webhook.disabled_reason}`)],
    [t("next"), time(webhook.next_attempt_at)],
    [t("id"), <>{id} <Copy text={id} label={t("copyId")} /></>],
    [t("urn"), <>{urn} <Copy text={urn} label={t("copyUrn")} /></>],
  ];
  return (
    <section className="panel">
      <h2>{t("facts")}</h2>
      <Facts facts={facts} />
    </section>
  );
}

const signatures = { v1: "v1", v1a: "v1a" } as const;
