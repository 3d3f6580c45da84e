import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Heading } from "../../components/a11y/heading";
import { Command, Copy } from "../../components/system/copy";
import { Facts } from "../../components/system/facts";
import { Remove } from "../../components/system/remove";
import { Content } from "../../components/system/section";
import { Time } from "../../components/system/time";
import { keys, stale } from "../../query/keys";
import { useRecent } from "../../session/recent";
import { useSession } from "../../session/session";
import { Balance, Ledger } from "./tenant/money";
import { Place } from "./tenant/place";
import { Usage } from "./tenant/usage";
import { UserTable, useUserColumns } from "./users";

// Tenant shows what the role of the user has: administrators read all of it, billing operators the money.
export function Tenant() {
  const { id } = useParams({ from: "/admin/tenants/$id" });
  const t = useTranslations("tenants");
  const { may } = useSession();
  const query = useQuery({
    queryKey: keys.tenant(id),
    queryFn: () => unwrap(api.GET("/api/v1/admin/tenants/{tenant_id}", { params: { path: { tenant_id: id } } })),
    staleTime: stale.list,
    enabled: may("getTenantByID"),
  });
  const userColumns = useUserColumns();
  useRecent(query.data?.name);
  return (
    <div className="stack">
      <Heading title={query.data?.name ?? t("tenant")} />
      {may("getTenantByID") && <Content query={query}>{(tenant) => <About tenant={tenant} />}</Content>}
      {may("getTenantBalance") && <Balance id={id} />}
      {may("getTenantUsage") && <Usage id={id} />}
      {may("listTenantLedger") && <Ledger id={id} />}
      {may("listUsers") && (
        <section className="panel stack">
          <h2>{t("users")}</h2>
          <UserTable filter={{ tenant: id }} columns={userColumns} />
          {may("placeTenantMember") && <Place tenant={id} />}
        </section>
      )}
      <Command text={`gpuaas admin tenant get '${id.replaceAll("'", "")}'`} label={t("oneCommand")} />
    </div>
  );
}

function About({ tenant: { id, name, currency, version, created_at } }: { tenant: Schemas["Tenant"] }) {
  const t = useTranslations("tenants");
  const { may } = useSession();
  const navigate = useNavigate();
  return (
    <section className="panel stack">
      <h2>{t("tenant")}</h2>
      <Facts
        facts={[
          [t("name"), name],
          [t("currency"), currency],
          [t("created"), <Time at={created_at} />],
          [t("id"), <>{id} <Copy text={id} label={t("copyId")} /></>],
        ]}
      />
      <div className="row">
        {may("listAdminAllocations") && <Link to="/admin/allocations" search={{ tenant: id }}>{t("allocations")}</Link>}
        {may("listAdminAuditLogs") && <Link to="/admin/audit" search={{ tenant: id }}>{t("audit")}</Link>}
        {may("deleteTenant") && (
          <Remove
            action={t("delete")}
            name={name}
            text={t("deleteText", { name })}
            done={t("isDeleted", { name })}
            run={(key) => unwrap(api.DELETE("/api/v1/admin/tenants/{tenant_id}", { params: { path: { tenant_id: id }, header: { "If-Match": `"${version}"`, "X-Idempotency-Key": key } } }))}
            invalidates={[keys.tenantList]}
            rereads={[keys.tenants]}
            after={() => void navigate({ to: "/admin/tenants" })}
          />
        )}
      </div>
    </section>
  );
}
