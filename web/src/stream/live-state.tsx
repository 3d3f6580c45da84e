import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { useTranslations } from "use-intl";
import { useSession } from "../session/session";
import type { Audience } from "./connection";
import { startLive } from "./live";
import { useConnection } from "./state";

const platformRoles = new Set(["admin", "operator"]);
const tenantRoles = new Set(["owner", "viewer"]);

// audienceOf asks for what the role of the user covers. Other roles of a tenant end at the border of a project: without a
// selected one, the server accepts those with a single project only, and the screens of the others poll.
function audienceOf({ me, project }: Pick<ReturnType<typeof useSession>, "me" | "project">): Audience {
  if (platformRoles.has(me.user?.role ?? "")) return { scope: "platform", project: "" };
  return { scope: "tenant", project: tenantRoles.has(me.tenant?.role ?? "") ? "" : project };
}

// LiveState connects the screens with the stream of events, and shows the state of the connection.
export function LiveState() {
  const t = useTranslations("live");
  const session = useSession();
  const client = useQueryClient();
  const { scope, project } = audienceOf(session);
  const user = session.me.user?.id ?? "";
  useEffect(() => startLive(client, user, { scope, project }), [client, user, scope, project]);
  const { state } = useConnection();
  return (
    <span role="status" className="dim" data-stream={state} title={t(`${state}Why`)}>
      {t(state)}
    </span>
  );
}
