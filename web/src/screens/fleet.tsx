import { Button, TextInput } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { type Column, More, Rows } from "../components/system/cursor-table";
import { Filter } from "../components/system/filter";
import { Content, Section } from "../components/system/section";
import { useListControls } from "../components/system/list-controls";
import { Empty } from "../components/system/states";
import { useWords } from "../components/system/words";
import { type FleetFilter, keys } from "../query/keys";
import { partOf } from "../query/model";
import { usePages } from "../query/pages";
import { unreported } from "../stream/unreported";
import { useSession } from "../session/session";
import { CreateNode } from "./fleet/create";
import { Faults } from "./fleet/faults";
import { Placement, Slots } from "./fleet/slots";
import { AgentPolicies } from "./node/updates";
import { Free } from "./platform/capacity";

type Node = Schemas["Node"];
type Query = { lifecycle?: "active"; health?: Node["health"]; reachability?: Node["reachability"]; sort?: "name" };

const lifecycles: Node["lifecycle"][] = ["declared", "commissioning", "enrolled", "active", "offline", "draining", "drained"];
const healths: Node["health"][] = ["healthy", "degraded", "unhealthy", "unknown"];
const reachabilities: Node["reachability"][] = ["reachable", "stale", "partitioned"];
const orders = ["name", "-name", "region", "sku", "health", "lifecycle", "-created_at"] as const;

export function Fleet() {
  const t = useTranslations("fleet");
  const { columns: _, ...filter } = useSearch({ from: "/fleet" });
  const [columns, controls] = useListControls("fleet", useColumns());
  const { may } = useSession();
  const filtered = Object.entries(filter).some(([name, value]) => name !== "sort" && value !== undefined);
  const { model, rows, query } = usePages({
    queryKey: keys.fleetList(filter),
    // The server checks what the address has.
    load: (cursor) => unwrap(api.GET("/api/v3/platform/fleet", { params: { query: { ...(filter as FleetFilter & Query), cursor, limit: 100 } } })),
    list: ({ nodes }) => nodes,
    refetchInterval: unreported.nodes.every,
  });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <Filters key={[filter.q, filter.region, filter.sku].join(" ")} filter={filter} filtered={filtered} />
      {controls}
      <Content query={model}>
        {({ nodes, capacity, faults }) => (
          <div className="stack">
            <Section title={t("nodes")} query={partOf(nodes, model.refetch)} isEmpty={() => rows.length === 0} empty={<Empty text={filtered ? t("noMatch") : t("none")} />}>
              {() => (
                <>
                  <Rows label={t("nodes")} columns={columns} rows={rows} rowKey={({ id }) => id} />
                  <More query={query} />
                </>
              )}
            </Section>
            <Free part={partOf(capacity, model.refetch)} />
            <Faults part={partOf(faults, model.refetch)} />
            {may("createNode") && <CreateNode />}
            {may("listPolicies") && <AgentPolicies />}
          </div>
        )}
      </Content>
      <Command text="gpuaas node list" label={t("command")} />
    </div>
  );
}

function useColumns(): Column<Node>[] {
  const t = useTranslations("fleet");
  const word = useWords();
  return useMemo(
    () => [
      { id: "name", header: t("name"), cell: ({ name }) => <Link to="/fleet/$name" params={{ name }}>{name}</Link> },
      { id: "region", header: t("region"), cell: ({ region }) => region },
      { id: "sku", header: t("sku"), cell: ({ sku }) => sku },
      { id: "lifecycle", header: t("lifecycle"), cell: ({ lifecycle }) => word(lifecycle) },
      { id: "health", header: t("health"), cell: ({ health }) => word(health) },
      { id: "reachability", header: t("reachability"), cell: ({ reachability }) => word(reachability) },
      { id: "occupancy", header: t("occupancy"), cell: ({ occupancy }) => word(occupancy) },
      { id: "slots", header: t("slots"), cell: (node) => <Slots node={node} /> },
      { id: "placement", header: t("placement"), cell: (node) => <Placement node={node} /> },
      { id: "agent", header: t("agent"), cell: ({ running_agent_version, agent_version }) => running_agent_version ?? agent_version ?? t("noAgent") },
      { id: "ring", header: t("ring"), cell: ({ agent_updates: [update] = [] }) => update && t("ringText", { ring: update.ring, version: update.version, state: word(update.status) }) },
      { id: "message", header: t("message"), cell: ({ message }) => message },
    ],
    [t, word],
  );
}

function Filters({ filter, filtered }: { filter: FleetFilter; filtered: boolean }) {
  const t = useTranslations("fleet");
  const navigate = useNavigate({ from: "/fleet" });
  const set = (change: FleetFilter) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  return (
    <form
      className="row"
      aria-label={t("filters")}
      onSubmit={(event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget);
        const entered = (name: string) => String(form.get(name) ?? "").trim() || undefined;
        set({ q: entered("q"), region: entered("region"), sku: entered("sku") });
      }}
    >
      <Filter label={t("lifecycle")} any={t("any")} values={lifecycles} value={filter.lifecycle ?? ""} change={(lifecycle) => set({ lifecycle })} />
      <Filter label={t("health")} any={t("any")} values={healths} value={filter.health ?? ""} change={(health) => set({ health })} />
      <Filter label={t("reachability")} any={t("any")} values={reachabilities} value={filter.reachability ?? ""} change={(reachability) => set({ reachability })} />
      <Filter label={t("sort")} values={orders} value={filter.sort ?? "name"} change={(sort) => set({ sort: sort === "name" ? undefined : sort })} />
      <TextInput label={t("namePart")} name="q" maxLength={63} defaultValue={filter.q ?? ""} />
      <TextInput label={t("region")} name="region" maxLength={63} defaultValue={filter.region ?? ""} />
      <TextInput label={t("sku")} name="sku" maxLength={63} defaultValue={filter.sku ?? ""} />
      <Button type="submit" variant="default">
        {t("filter")}
      </Button>
      {filtered && <Link to="/fleet">{t("clear")}</Link>}
    </form>
  );
}
