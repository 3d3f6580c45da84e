import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { useTranslations } from "use-intl";
import { useSession } from "../session/session";
import { startLive } from "./live";
import { useConnection } from "./state";

const platformRoles = new Set(["admin", "operator"]);

// LiveState connects the screens with the stream of events, and shows the state of the connection.
export function LiveState() {
  const t = useTranslations("live");
  const { me } = useSession();
  const client = useQueryClient();
  const user = me.user?.id ?? "";
  const scope = platformRoles.has(me.user?.role ?? "") ? "platform" : "tenant";
  useEffect(() => startLive(client, user, scope), [client, user, scope]);
  const { state } = useConnection();
  return (
    <span role="status" className="dim" data-stream={state} title={t(`${state}Why`)}>
      {t(state)}
    </span>
  );
}
