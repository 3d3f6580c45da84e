import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { Content } from "../components/system/section";
import { keys, refetch, stale } from "../query/keys";
import { partOf } from "../query/model";
import { useRecent } from "../session/recent";
import { useSession } from "../session/session";
import { unreported } from "../stream/unreported";
import { Conditions } from "./allocation/conditions";
import { Edit, editable } from "./allocation/edit";
import { Expiry } from "./allocation/expiry";
import { Facts } from "./allocation/facts";
import { Faults } from "./allocation/faults";
import { ReportFault } from "./allocation/fault";
import { AllocationLogs } from "./allocation/logs";
import { Proof } from "./allocation/proof";
import { Release, releasable } from "./allocation/release";
import { Telemetry } from "./allocation/telemetry";
import { Timeline } from "./allocation/timeline";
import { Why } from "./allocation/why";
import { Intervals } from "./billing/intervals";

const changing = new Set(["requested", "provisioning", "releasing"]);
// No event reports why an allocation waits, and what the GPUs of an active one do.
const silent: Record<string, number> = { requested: unreported.queue.every, active: unreported.telemetry.every };
const intervalOf = (status: string) => (changing.has(status) ? refetch.changing : refetch.live)() || (silent[status] ?? false);

export function Allocation() {
  const { id } = useParams({ from: "/allocations/$id" });
  const t = useTranslations("allocation");
  const { may } = useSession();
  const query = useQuery({
    queryKey: keys.allocation(id),
    queryFn: () => unwrap(api.GET("/api/v3/compute/allocations/{id}", { params: { path: { id } } })),
    staleTime: stale.live,
    refetchInterval: ({ state }) => intervalOf(state.data?.allocation.data?.status ?? ""),
  });
  useRecent(query.data?.allocation.data?.name);
  return (
    <div className="stack">
      <Heading title={query.data?.allocation.data?.name ?? t("fallback")} />
      <Content query={query}>
        {({ allocation, why, telemetry, timeline, faults }) => (
          <Content query={partOf(allocation, query.refetch)}>
            {(value) => (
              <div className="stack">
                <Facts allocation={value} receivedAt={query.dataUpdatedAt} />
                <section className="panel stack">
                  <h2>{t("connect")}</h2>
                  {value.status === "active" ? <Command text={`gpuaas ssh ${value.name}`} label={t("copySsh")} /> : <p>{t("notActive")}</p>}
                  {value.status === "active" && may("createTerminalToken") && (
                    <Link to="/allocations/$id/terminal" params={{ id }}>
                      {t("terminal")}
                    </Link>
                  )}
                </section>
                <Why part={partOf(why, query.refetch)} status={value.status} />
                {may("updateAllocation") && value.status === "active" && <Expiry allocation={value} />}
                {may("releaseAllocation") && releasable.has(value.status) && <Release allocation={value} receivedAt={query.dataUpdatedAt} />}
                <Telemetry id={id} latest={partOf(telemetry, query.refetch)} ended={value.ended_at} />
                {may("updateAllocation") && editable.has(value.status) && <Edit allocation={value} />}
                {may("reportAllocationFault") && value.status === "active" && <ReportFault allocation={value} gpus={(telemetry.data?.gpus ?? []).map(({ uuid }) => uuid)} />}
                {value.active_at !== undefined && <Faults id={id} part={partOf(faults, query.refetch)} />}
                {value.ended_at !== undefined && <Proof allocation={value} />}
                {may("listUsageIntervals") && value.active_at !== undefined && (
                  <section className="panel">
                    <h2>{t("intervals")}</h2>
                    <Intervals allocation={id} from={value.created_at} />
                  </section>
                )}
                {may("getAllocationLogs") && value.status !== "requested" && <AllocationLogs id={id} />}
                <Conditions conditions={value.conditions} />
                <Timeline part={partOf(timeline, query.refetch)} />
                <Command text={`gpuaas alloc get ${value.name}`} label={t("command")} />
              </div>
            )}
          </Content>
        )}
      </Content>
    </div>
  );
}
