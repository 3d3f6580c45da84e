import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { Failure } from "../components/system/failure";
import { Section } from "../components/system/section";
import { useAction } from "../query/action";
import { keys, stale } from "../query/keys";
import { useSession } from "../session/session";
import { PreferencesForm } from "./preferences/form";

export function Preferences() {
  const t = useTranslations("preferences");
  const { may } = useSession();
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <Link to="/notifications">{t("inbox")}</Link>
      <Own />
      <Test />
      {may("putTenantNotificationPreferences") && <OfTenant />}
      <Command text="gpuaas notifications preferences" label={t("command")} />
    </div>
  );
}

function Own() {
  const t = useTranslations("preferences");
  const query = useQuery({ queryKey: keys.ownPreferences, queryFn: () => unwrap(api.GET("/api/v1/notifications/preferences")), staleTime: stale.list });
  return (
    <Section title={t("own")} query={query}>
      {(preferences) => (
        <>
          {preferences.email !== undefined && <Email email={preferences.email} />}
          <PreferencesForm
            key={preferences.version}
            preferences={preferences}
            scope="user"
            put={(body, version, key) => unwrap(api.PUT("/api/v1/notifications/preferences", { params: { header: { "If-Match": `"${version}"`, "X-Idempotency-Key": key } }, body }))}
          />
        </>
      )}
    </Section>
  );
}

function OfTenant() {
  const t = useTranslations("preferences");
  const query = useQuery({ queryKey: keys.tenantPreferences, queryFn: () => unwrap(api.GET("/api/v1/tenant/notifications/preferences")), staleTime: stale.list });
  return (
    <Section title={t("tenant")} query={query}>
      {(preferences) => (
        <>
          <p>{t("tenantNote")}</p>
          <PreferencesForm
            key={preferences.version}
            preferences={preferences}
            scope="tenant"
            put={(body, version, key) => unwrap(api.PUT("/api/v1/tenant/notifications/preferences", { params: { header: { "If-Match": `"${version}"`, "X-Idempotency-Key": key } }, body }))}
          />
        </>
      )}
    </Section>
  );
}

// Email states whether e-mails reach the user, and why not.
function Email({ email: { address, verified, enabled, suppressed_at: since, suppressed_reason: reason = "" } }: { email: Schemas["NotificationEmail"] }) {
  const t = useTranslations("preferences");
  if (!enabled) return <p>{t("emailDisabled")}</p>;
  if (!verified) return <p>{t("unverified", { address })}</p>;
  return <p>{since === undefined ? t("address", { address }) : t("suppressed", { address, reason })}</p>;
}

// Test sends a notification on each channel, and shows what was sent.
function Test() {
  const t = useTranslations("preferences");
  const [results, setResults] = useState<Schemas["NotificationTestResult"][]>([]);
  const action = useAction((_: null, key) => unwrap(api.POST("/api/v1/notifications/test", { params: { header: { "X-Idempotency-Key": key } } })), [keys.notifications]);
  const nameOf = (channel: string) => (channel === "email" ? t("email") : channel === "in_app" ? t("inApp") : channel);
  return (
    <div className="row">
      <Button variant="default" loading={action.pending} onClick={() => action.start(null, ({ channels }) => setResults(channels))}>
        {t("test")}
      </Button>
      <span role="status">{results.map(({ channel, sent, reason = "" }) => t(sent ? "tested" : "notSent", { channel: nameOf(channel), reason })).join(". ")}</span>
      {action.error !== null && <Failure error={action.error} />}
    </div>
  );
}
