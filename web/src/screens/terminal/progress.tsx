import { Button } from "@mantine/core";
import { useTranslations } from "use-intl";
import { useNow } from "../../components/system/now";
import type { State } from "../../terminal/connection";
import { useReason } from "./reason";


// Progress states what the terminal does, and offers the next step.
export function Progress({ state, now, restart }: { state: State; now: () => void; restart: () => void }) {
  const t = useTranslations("terminal");
  const clock = useNow(1_000);
  const seconds = state.name === "reconnecting" ? Math.max(0, Math.ceil((state.at - clock) / 1_000)) : 0;
  const because = useReason();
  return (
    <div className="row">
      <p role={state.name === "ended" ? "alert" : "status"} data-state={state.name === "ended" || state.name === "reconnecting" ? "error" : state.name}>
        {state.name === "connecting" && t("connecting")}
        {state.name === "connected" && t(state.recorded ? "recorded" : "connected")}
        {state.name === "reconnecting" && t("lost")}
        {state.name === "replaced" && t("replaced")}
        {state.name === "ended" && (state.status === undefined ? t("ended", { reason: because(state.reason) }) : t("exited", { status: String(state.status) }))}
      </p>
      {state.name === "reconnecting" && <span>{t("reconnecting", { seconds })}</span>}
      {state.name === "reconnecting" && (
        <Button variant="default" size="compact-sm" onClick={now}>
          {t("now")}
        </Button>
      )}
      {(state.name === "ended" || state.name === "replaced") && (
        <Button size="compact-sm" onClick={restart}>
          {t(state.name === "replaced" ? "takeOver" : "again")}
        </Button>
      )}
    </div>
  );
}
