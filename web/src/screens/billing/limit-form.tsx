import { Button, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Failure } from "../../components/system/failure";
import { useToast } from "../../components/system/toasts";
import { majorOf, minorOf } from "../../i18n/format";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";

type Limits = Schemas["BillingLimits"];
type Change = { version: string; body: Schemas["BillingLimitsRequest"] };

// LimitForm sets the limits of the tenant, or those of a project, in the version on the screen. A limit that Git sets has no field: it is changed
// there.
export function LimitForm({ limits, project }: { limits: Limits; project?: string }) {
  const t = useTranslations("billing");
  const toast = useToast();
  const { currency } = limits;
  const textOf = (minor: number) => (minor === 0 ? "" : majorOf(minor, currency));
  const [hourly, setHourly] = useState(textOf(limits.hourly_spend_minor));
  const [monthly, setMonthly] = useState(textOf(limits.monthly_budget_minor));
  const action = useAction(
    ({ version, body }: Change, key) =>
      unwrap(api.PUT("/api/v1/billing/limits", { params: { query: { project_id: project }, header: { "If-Match": `"${version}"`, "X-Idempotency-Key": key } }, body })),
    project === undefined ? [keys.billing, keys.overview] : [keys.projectLimits(project)],
  );
  // Nothing entered is no limit, which the API writes as zero.
  const amount = (text: string) => (text.trim() === "" ? 0 : minorOf(text, currency));
  const hourlyMinor = amount(hourly);
  const monthlyMinor = amount(monthly);
  const complete = hourlyMinor !== undefined && monthlyMinor !== undefined;
  const own = {
    ...(limits.hourly_managed_by === undefined && { hourly_spend_minor: hourlyMinor }),
    ...(limits.monthly_managed_by === undefined && { monthly_budget_minor: monthlyMinor }),
  };
  if (Object.keys(own).length === 0) return null;
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (complete) action.start({ version: limits.version, body: { currency, ...own } }, () => toast(t("limitsSet")));
      }}
    >
      <h3>{t(project === undefined ? "setLimits" : "setProjectLimits")}</h3>
      <p>{t("limitsNote")}</p>
      <div className="row">
        {limits.hourly_managed_by === undefined && <Amount label={t("hourlyLimit", { currency })} text={hourly} wrong={hourlyMinor === undefined} change={setHourly} />}
        {limits.monthly_managed_by === undefined && <Amount label={t("monthlyLimit", { currency })} text={monthly} wrong={monthlyMinor === undefined} change={setMonthly} />}
        <Button type="submit" variant="default" disabled={!complete} loading={action.pending}>
          {t("setLimitsAction")}
        </Button>
      </div>
      {action.error !== null && <Failure error={action.error} />}
    </form>
  );
}

function Amount({ label, text, wrong, change }: { label: string; text: string; wrong: boolean; change: (text: string) => void }) {
  const t = useTranslations("billing");
  return <TextInput label={label} inputMode="decimal" value={text} error={wrong ? t("topUpWrong") : undefined} onChange={(event) => change(event.currentTarget.value)} />;
}
