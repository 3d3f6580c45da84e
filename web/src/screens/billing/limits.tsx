import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { Command } from "../../components/system/copy";
import { Section } from "../../components/system/section";
import { useFormat } from "../../i18n/format";
import type { Part } from "../../query/model";
import { useSession } from "../../session/session";
import { LimitForm } from "./limit-form";

type Props = { part: Part<Schemas["BillingLimits"]>; project?: Pick<Schemas["Project"], "id" | "name"> };

// Limits are those of the tenant, or of a project.
export function Limits({ part, project }: Props) {
  const t = useTranslations("billing");
  const format = useFormat();
  const { may } = useSession();
  return (
    <Section title={t("limits")} query={part}>
      {(limits) => {
        const { currency } = limits;
        const limit = (minor: number) => (minor === 0 ? t("noLimit") : format.minor(minor, currency));
        return (
          <div className="stack">
            <dl className="facts">
              <dt>{t("hourly")}</dt>
              <dd>
                {limit(limits.effective_hourly_spend_minor)}
                {limits.hourly_managed_by !== undefined && <p className="dim">{t("inGit", { place: limits.hourly_managed_by })}</p>}
              </dd>
              <dt>{t("committed")}</dt>
              <dd>{format.minor(limits.committed_per_hour_minor, currency)}</dd>
              <dt>{t("monthly")}</dt>
              <dd>
                {limit(limits.effective_monthly_budget_minor)}
                {limits.monthly_managed_by !== undefined && <p className="dim">{t("inGit", { place: limits.monthly_managed_by })}</p>}
              </dd>
              <dt>{t("month")}</dt>
              <dd>{format.minor(limits.spent_this_month_minor, currency)}</dd>
            </dl>
            {may("putBillingLimits") && <LimitForm key={limits.version} limits={limits} project={project?.id} />}
            <Command text={project === undefined ? "gpuaas balance limits" : `gpuaas balance limits --project ${project.name}`} label={t("copyLimits")} />
          </div>
        );
      }}
    </Section>
  );
}
