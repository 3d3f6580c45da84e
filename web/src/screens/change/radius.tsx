import { Link } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { useFormat } from "../../i18n/format";

type Props = { radius: Schemas["BlastRadius"]; reasons: Schemas["ApprovalReason"][] };

// Radius is who and what the change reaches, and why it needs an approval.
export function Radius({ radius: { tenants, projects, allocations, nodes, agents, names, drains, over_caps }, reasons }: Props) {
  const t = useTranslations("change");
  const { number } = useFormat();
  return (
    <section className="panel stack">
      <h2>{t("radius")}</h2>
      <dl className="facts">
        <dt>{t("tenants")}</dt>
        <dd>{names.length === 0 ? number(tenants) : t("tenantsText", { count: number(tenants), names: names.join(", ") })}</dd>
        <dt>{t("projects")}</dt>
        <dd>{number(projects)}</dd>
        <dt>{t("allocations")}</dt>
        <dd>{number(allocations)}</dd>
        <dt>{t("nodes")}</dt>
        <dd>{number(nodes)}</dd>
        <dt>{t("agents")}</dt>
        <dd>{number(agents)}</dd>
      </dl>
      {drains.length > 0 && (
        <>
          <h3>{t("drains")}</h3>
          <ul>
            {drains.map(({ node, allocations, slots }) => (
              <li key={node}>
                <Link to="/fleet/$name" params={{ name: node }}>
                  {t("drainText", { node, allocations, slots })}
                </Link>
              </li>
            ))}
          </ul>
        </>
      )}
      {over_caps.length > 0 && (
        <>
          <h3>{t("caps")}</h3>
          <ul>
            {over_caps.map(({ key, scope, name = "", used, limit }) => (
              <li key={`${key} ${scope} ${name}`}>{t("capText", { key, scope, name, used: number(used), limit: number(limit) })}</li>
            ))}
          </ul>
        </>
      )}
      {reasons.length > 0 && (
        <>
          <h3>{t("reasons")}</h3>
          <ul>
            {reasons.map(({ reason, message, objects }) => (
              <li key={reason}>{objects.length === 0 ? message : t("reasonText", { message, objects: objects.join(", ") })}</li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
