import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { Content } from "../components/system/section";
import { keys, stale } from "../query/keys";
import { partOf } from "../query/model";
import { useRecent } from "../session/recent";
import { unreported } from "../stream/unreported";
import { useSession } from "../session/session";
import { DesiredState } from "./desired/object";
import { Allocations } from "./node/allocations";
import { Enrol } from "./node/enrol";
import { Certificates, Reports } from "./node/health";
import { About } from "./node/facts";
import { Gpus } from "./node/gpus";
import { History } from "./node/history";
import { Holds } from "./node/holds";
import { NodeLogs } from "./node/logs";
import { Maintenance } from "./node/maintenance";
import { Service } from "./node/service";
import { HealthTimeline } from "./node/timeline";
import { Topology } from "./node/topology";
import { Tasks } from "./node/tasks";
import { Updates } from "./node/updates";

export function Node() {
  const { name } = useParams({ from: "/fleet/$name" });
  const t = useTranslations("node");
  const { may } = useSession();
  const query = useQuery({
    queryKey: keys.node(name),
    queryFn: () => unwrap(api.GET("/api/v3/platform/nodes/{name}", { params: { path: { name } } })),
    staleTime: stale.list,
    refetchInterval: unreported.nodes.every,
  });
  useRecent(query.data?.node.data?.name);
  return (
    <div className="stack">
      <Heading title={name} />
      <Content query={query}>
        {({ node, allocations, topology, trace }) => (
          <div className="stack">
            <Content query={partOf(node, query.refetch)}>
              {(value) => (
                <div className="stack">
                  <About node={value} />
                  <Maintenance node={value} allocations={allocations.data} />
                  <Service node={value} />
                  {may("createEnrolmentToken") && <Enrol node={value} />}
                  <Holds holds={value.holds ?? []} />
                  <Topology part={partOf(topology, query.refetch)} gpus={value.gpus ?? []} />
                  <Gpus node={name} gpus={value.gpus ?? []} />
                </div>
              )}
            </Content>
            <Allocations part={partOf(allocations, query.refetch)} />
            {node.data !== undefined && (
              <>
                <HealthTimeline node={node.data} />
                <Updates updates={node.data.agent_updates ?? []} />
                <Tasks tasks={node.data.tasks ?? []} />
                <Reports reports={node.data.health_reports ?? []} />
                <Certificates certificates={node.data.certificates ?? []} />
              </>
            )}
            {may("getNodeLogs") && <NodeLogs name={name} />}
            {may("getDesired") && <DesiredState kind="Node" name={name} />}
            <History part={partOf(trace, query.refetch)} />
          </div>
        )}
      </Content>
      <Command text={`gpuaas describe node '${name.replaceAll("'", "")}'`} label={t("command")} />
    </div>
  );
}
