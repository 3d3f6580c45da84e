import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import type { Column } from "../../components/system/cursor-table";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";
import { useSession } from "../../session/session";
import { List } from "./list";

type Update = Schemas["AgentUpdate"];

// Updates are the rollouts of the agent that reached the node. A policy has the version, and the sizes of the rings.
export function Updates({ updates }: { updates: Update[] }) {
  const t = useTranslations("service");
  const word = useWords();
  const { may } = useSession();
  const columns = useMemo(
    (): Column<Update>[] => [
      { id: "version", header: t("version"), cell: ({ version }) => version },
      { id: "previous", header: t("previous"), cell: ({ previous }) => previous },
      { id: "ring", header: t("ring"), cell: ({ ring }) => ring, number: true },
      { id: "state", header: t("state"), cell: ({ status }) => word(status) },
      { id: "message", header: t("message"), cell: ({ message }) => message },
      { id: "requested", header: t("requested"), cell: ({ requested_at }) => <Time at={requested_at} /> },
      { id: "changed", header: t("changed"), cell: ({ updated_at }) => <Time at={updated_at} /> },
    ],
    [t, word],
  );
  return (
    <div className="stack">
      <List title={t("updates")} empty={t("noUpdates")} columns={columns} rows={updates} rowKey={({ version, requested_at }) => `${version} ${requested_at}`} />
      {may("listPolicies") && <AgentPolicies />}
    </div>
  );
}

export function AgentPolicies() {
  const t = useTranslations("service");
  return (
    <Link to="/admin/policies" search={{ prefix: "node." }}>
      {t("versions")}
    </Link>
  );
}
