import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Heading } from "../../components/a11y/heading";
import { Command, Copy } from "../../components/system/copy";
import { Facts } from "../../components/system/facts";
import { Content } from "../../components/system/section";
import { Time } from "../../components/system/time";
import { useFormat } from "../../i18n/format";
import { keys, stale } from "../../query/keys";
import { useRecent } from "../../session/recent";
import { useSession } from "../../session/session";
import { unreported } from "../../stream/unreported";
import { SessionTable, useSessionColumns } from "./sessions/table";
import { Access } from "./user/access";
import { Money } from "./user/money";

type Props = { user: Schemas["UserDetail"] };

export function User() {
  const { id } = useParams({ from: "/admin/users/$id" });
  const t = useTranslations("users");
  const sessions = useTranslations("sessions");
  const { may } = useSession();
  const query = useQuery({ queryKey: keys.user(id), queryFn: () => unwrap(api.GET("/api/v1/admin/users/{user_id}", { params: { path: { user_id: id } } })), staleTime: stale.list, refetchInterval: unreported.balance.every });
  const sessionColumns = useSessionColumns(id);
  useRecent(query.data?.email);
  return (
    <div className="stack">
      <Heading title={query.data?.email ?? t("user")} />
      <Content query={query}>
        {(user) => (
          <div className="stack">
            <About user={user} />
            {may("updateUser") && <Access user={user} />}
            {may("createRefund") && user.balance !== undefined && <Money user={user} balance={user.balance} />}
            {may("listAllSessions") && (
              <section className="panel">
                <h2>{sessions("title")}</h2>
                <SessionTable user={id} columns={sessionColumns} />
              </section>
            )}
          </div>
        )}
      </Content>
      <Command text={`gpuaas admin user get '${id.replaceAll("'", "")}'`} label={t("oneCommand")} />
    </div>
  );
}

function About({ user }: Props) {
  const t = useTranslations("users");
  const format = useFormat();
  const { may } = useSession();
  const { id, tenant, signed_in_at: at } = user;
  return (
    <section className="panel">
      <h2>{t("user")}</h2>
      <Facts
        facts={[
          [t("name"), user.name],
          [t("email"), user.email],
          [t("state"), user.disabled ? t("disabled") : t("enabled")],
          [t("role"), user.role],
          [t("roleFrom"), user.role_from === "provider" ? t("provider") : t("platform")],
          [t("tenant"), tenant === undefined ? t("noTenant") : <Link to="/admin/tenants/$id" params={{ id: tenant.id }}>{t("tenantText", { name: tenant.name, role: tenant.role })}</Link>],
          [t("balance"), user.balance && format.money(user.balance)],
          [t("active"), format.number(user.active_allocations)],
          [t("issuer"), user.issuer || t("noIssuer")],
          [t("signedIn"), at === undefined ? t("never") : <Time at={at} />],
          [t("created"), <Time at={user.created_at} />],
          [t("id"), <>{id} <Copy text={id} label={t("copyId")} /></>],
        ]}
      />
      {may("listAdminAuditLogs") && (
        <Link to="/admin/audit" search={{ actor: `user:${id}` }}>
          {t("audit")}
        </Link>
      )}
    </section>
  );
}
