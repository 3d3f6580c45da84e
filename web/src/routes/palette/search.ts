import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { keys, stale } from "../../query/keys";
import type { Recent } from "../../session/recent";
import { useSession } from "../../session/session";

const pause = 200;
const least = 2;
const most = 5;

const allocations = async (q: string): Promise<Recent[]> =>
  (await unwrap(api.GET("/api/v1/allocations", { params: { query: { q, limit: most } } }))).items.map(({ id, name }) => ({ path: `/allocations/${encodeURIComponent(id)}`, name }));

const nodes = async (q: string): Promise<Recent[]> =>
  (await unwrap(api.GET("/api/v1/admin/nodes", { params: { query: { q, limit: most } } }))).items.map(({ name }) => ({ path: `/fleet/${encodeURIComponent(name)}`, name }));

const projects = async (q: string): Promise<Recent[]> =>
  (await unwrap(api.GET("/api/v1/projects", { params: { query: { q, limit: most } } }))).items.map(({ id, name }) => ({ path: `/projects/${encodeURIComponent(id)}`, name }));

// useFound searches by a part of the name on the server, where a user may list the objects. A search that fails finds
// nothing, and the others stay.
export function useFound(text: string): { found: Recent[]; searching: boolean } {
  const { may, me } = useSession();
  const [q] = useDebouncedValue(text.trim().slice(0, 63), pause);
  const query = useQuery({
    queryKey: keys.search(q),
    queryFn: async () => {
      const searches = [may("listAllocations") && allocations(q), me.tenant !== undefined && projects(q), may("listAdminNodes") && nodes(q)];
      const results = await Promise.allSettled(searches);
      return results.flatMap((result) => (result.status === "fulfilled" && result.value !== false ? result.value : []));
    },
    staleTime: stale.list,
    enabled: q.length >= least,
    placeholderData: keepPreviousData,
  });
  // While a search is in progress, the results of the last one stay where they fit the text.
  const fits = ({ name }: Recent) => name.toLowerCase().includes(text.trim().toLowerCase());
  return { found: q.length >= least ? (query.data ?? []).filter(fits) : [], searching: query.isFetching };
}
