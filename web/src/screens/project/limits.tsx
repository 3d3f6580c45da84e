import { useQuery } from "@tanstack/react-query";
import { type Schemas, api, unwrap } from "../../api/client";
import { keys, stale } from "../../query/keys";
import { Limits } from "../billing/limits";

// ProjectLimits are read by themselves, because only users with a role in the tenant's billing read them.
export function ProjectLimits({ project: { id, name } }: { project: Schemas["Project"] }) {
  const query = useQuery({
    queryKey: keys.projectLimits(id),
    queryFn: () => unwrap(api.GET("/api/v1/billing/limits", { params: { query: { project_id: id } } })),
    staleTime: stale.money,
  });
  return <Limits part={query} project={{ id, name }} />;
}
