import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Heading } from "../../components/a11y/heading";
import { Command, Copy } from "../../components/system/copy";
import { type Fact, Facts } from "../../components/system/facts";
import { Content } from "../../components/system/section";
import { Status } from "../../components/system/status";
import { Time } from "../../components/system/time";
import { useFormat } from "../../i18n/format";
import { keys, stale } from "../../query/keys";
import { useRecent } from "../../session/recent";
import { useSession } from "../../session/session";
import { unreported } from "../../stream/unreported";
import { Conditions } from "../allocation/conditions";
import { DesiredState } from "../desired/object";
import { History } from "../node/history";
import { ForceRelease, forceable } from "./allocation/release";
import { Waits } from "./allocation/waits";

type Props = { allocation: Schemas["Allocation"] };

// After these states the name can belong to another allocation.
const ended = new Set<string>(["released", "failed"]);

// AdminAllocation is an allocation of any tenant, as operators read it: without the telemetry and the files of the tenant.
export function AdminAllocation() {
  const { id } = useParams({ from: "/admin/allocations/$id" });
  const t = useTranslations("adminAllocations");
  const { may } = useSession();
  const query = useQuery({
    queryKey: keys.adminAllocation(id),
    queryFn: () => unwrap(api.GET("/api/v1/admin/allocations/{id}", { params: { path: { id } } })),
    staleTime: stale.live,
    refetchInterval: unreported.tenants.every,
  });
  useRecent(query.data?.name);
  return (
    <div className="stack">
      <Heading title={query.data?.name ?? t("allocation")} />
      <Content query={query}>
        {(allocation) => (
          <div className="stack">
            <About allocation={allocation} />
            {allocation.pending !== undefined && <Waits pending={allocation.pending} />}
            {may("forceReleaseAllocation") && forceable.has(allocation.status) && <ForceRelease allocation={allocation} />}
            <Conditions conditions={allocation.conditions} />
            {may("getDesired") && !ended.has(allocation.status) && <DesiredState kind="Allocation" name={allocation.name} scope={allocation.project_id} />}
            {may("traceDesired") && !ended.has(allocation.status) && <Trace allocation={allocation} />}
          </div>
        )}
      </Content>
      <Command text={`gpuaas admin alloc get '${id.replaceAll("'", "")}'`} label={t("oneCommand")} />
    </div>
  );
}

function About({ allocation }: Props) {
  const t = useTranslations("adminAllocations");
  const format = useFormat();
  const { id, urn, node_name: name, tenant_id: tenant } = allocation;
  const facts: Fact[] = [
    [t("state"), <><Status status={allocation.status} /> <Time at={allocation.status_at} /></>],
    [t("reason"), allocation.reason],
    [t("message"), allocation.message],
    [t("tenant"), <Link to="/admin/allocations" search={{ tenant }}>{allocation.tenant_name ?? tenant}</Link>],
    [t("project"), allocation.project_id],
    [t("user"), allocation.user_id],
    [t("hardware"), t("hardwareText", { count: allocation.gpus, sku: allocation.sku, region: allocation.region })],
    [t("node"), name && <Link to="/fleet/$name" params={{ name }}>{name}</Link>],
    [t("price"), format.money(allocation.price)],
    [t("cost"), format.money(allocation.cost)],
    [t("requested"), <Time at={allocation.created_at} />],
    [t("expires"), allocation.expires_at === undefined ? t("noExpiry") : <Time at={allocation.expires_at} />],
    [t("id"), <>{id} <Copy text={id} label={t("copyId")} /></>],
    [t("urn"), <>{urn} <Copy text={urn} label={t("copyUrn")} /></>],
  ];
  return (
    <section className="panel">
      <h2>{t("allocation")}</h2>
      <Facts facts={facts} />
    </section>
  );
}

// Trace is the way of the allocation from the request to the last report of its node.
function Trace({ allocation: { id, name, project_id: scope } }: Props) {
  const query = useQuery({
    queryKey: keys.adminAllocationTrace(id),
    queryFn: () => unwrap(api.GET("/api/v1/admin/desired/{kind}/{name}/trace", { params: { path: { kind: "Allocation", name }, query: { scope } } })),
    refetchInterval: unreported.tenants.every,
  });
  return <History part={query} />;
}
