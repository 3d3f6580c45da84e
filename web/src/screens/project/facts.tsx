import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { Copy } from "../../components/system/copy";
import { Time } from "../../components/system/time";

export function Facts({ project }: { project: Schemas["Project"] }) {
  const t = useTranslations("projects");
  return (
    <section className="panel">
      <h2>{t("facts")}</h2>
      <dl className="facts">
        <dt>{t("description")}</dt>
        <dd>{project.description || t("noDescription")}</dd>
        <dt>{t("role")}</dt>
        <dd>{project.role || t("noRole")}</dd>
        <dt>{t("created")}</dt>
        <dd>
          <Time at={project.created_at} />
        </dd>
        <dt>{t("id")}</dt>
        <dd>
          {project.id} <Copy text={project.id} label={t("copyId")} />
        </dd>
        <dt>{t("urn")}</dt>
        <dd>
          {project.urn} <Copy text={project.urn} label={t("copyUrn")} />
        </dd>
      </dl>
    </section>
  );
}
