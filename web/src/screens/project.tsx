import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { Remove } from "../components/system/remove";
import { Content } from "../components/system/section";
import { keys, stale } from "../query/keys";
import { partOf } from "../query/model";
import { mayDo } from "../session/may";
import { useRecent } from "../session/recent";
import { useSession } from "../session/session";
import { ServiceAccounts } from "./project/accounts";
import { Edit } from "./project/edit";
import { Facts } from "./project/facts";
import { ProjectLimits } from "./project/limits";
import { Members } from "./project/members";

type Project = Schemas["Project"];

export function Project() {
  const { id } = useParams({ from: "/projects/$id" });
  const t = useTranslations("projects");
  const { me } = useSession();
  const query = useQuery({
    queryKey: keys.project(id),
    queryFn: () => unwrap(api.GET("/api/v3/access/projects/{project_id}", { params: { path: { project_id: id } } })),
    staleTime: stale.list,
  });
  useRecent(query.data?.project.data?.name);
  return (
    <div className="stack">
      <Heading title={query.data?.project.data?.name ?? t("fallback")} />
      <Content query={query}>
        {({ project, members, service_accounts }) => (
          <Content query={partOf(project, query.refetch)}>
            {(value) => {
              // The role in this project counts, not that in the selected ones.
              const roles = { tenant: me.tenant?.role ?? "", projects: [value.role] };
              return (
                <div className="stack">
                  <Facts project={value} />
                  {mayDo("updateProject", roles) && <Edit project={value} />}
                  <Members project={value} part={partOf(members, query.refetch)} editable={mayDo("putProjectMember", roles)} />
                  {mayDo("createServiceAccount", roles) && <ServiceAccounts project={value} part={partOf(service_accounts, query.refetch)} />}
                  {mayDo("getBillingLimits", roles) && <ProjectLimits project={value} />}
                  <Command text={`gpuaas project get ${value.name}`} label={t("copyGet")} />
                  {mayDo("deleteProject", roles) && <Delete project={value} />}
                </div>
              );
            }}
          </Content>
        )}
      </Content>
    </div>
  );
}

function Delete({ project: { id, name, version } }: { project: Project }) {
  const t = useTranslations("projects");
  const navigate = useNavigate();
  return (
    <section className="panel stack">
      <h2>{t("delete")}</h2>
      <p>{t("deleteText")}</p>
      <Remove
        action={t("delete")}
        name={name}
        text={t("deleteText")}
        done={t("deleted", { name })}
        run={(key) =>
          unwrap(api.DELETE("/api/v1/projects/{project_id}", { params: { path: { project_id: id }, header: { "If-Match": `"${version}"`, "X-Idempotency-Key": key } } }))
        }
        invalidates={[keys.projectList, keys.projects]}
        after={() => void navigate({ to: "/projects" })}
      />
    </section>
  );
}
