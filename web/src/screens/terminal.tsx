import { Button, Checkbox, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { Content } from "../components/system/section";
import { keys, refetch, stale } from "../query/keys";
import { useRecent } from "../session/recent";
import { useSession } from "../session/session";
import { Paste } from "./terminal/paste";
import { Progress } from "./terminal/progress";
import { Recordings } from "./terminal/recordings";
import { Sessions } from "./terminal/sessions";
import { useTerminal } from "./terminal/use-terminal";

// TerminalScreen is a shell in an allocation.
export function TerminalScreen() {
  const { id } = useParams({ from: "/allocations/$id/terminal" });
  const t = useTranslations("terminal");
  const { may } = useSession();
  const query = useQuery({
    queryKey: keys.terminal(id),
    queryFn: () => unwrap(api.GET("/api/v1/allocations/{id}", { params: { path: { id } } })),
    staleTime: stale.live,
    refetchInterval: refetch.live,
  });
  useRecent(query.data?.name);
  return (
    <div className="stack">
      <Heading title={t("title", { name: query.data?.name ?? "" })} />
      <Content query={query}>
        {({ name, status }) => (
          <>
            <p>
              <Link to="/allocations/$id" params={{ id }}>
                {t("back", { name })}
              </Link>
            </p>
            {!may("createTerminalToken") ? <p role="status">{t("notAllowed")}</p> : status === "active" ? <Shell id={id} name={name} /> : <p role="status">{t("notActive", { name })}</p>}
            {may("listTerminalSessions") && (
              <section className="panel">
                <h2>{t("sessions")}</h2>
                <Sessions allocation={id} />
              </section>
            )}
            {may("listTerminalRecordings") && (
              <section className="panel">
                <h2>{t("recordings")}</h2>
                <Recordings allocation={id} />
              </section>
            )}
            <Command text={`gpuaas terminal ${name}`} label={t("command")} />
          </>
        )}
      </Content>
    </div>
  );
}

function Shell({ id, name }: { id: string; name: string }) {
  const t = useTranslations("terminal");
  const { element, state, view, now, restart, pasted, settle } = useTerminal(id, t("screen", { name }));
  const [text, setText] = useState("");
  const [aloud, setAloud] = useState(false);
  const [missing, setMissing] = useState(false);
  const find = () => void view.current?.find(text).then((found) => setMissing(!found));
  return (
    <section className="stack">
      <Progress state={state} now={now} restart={restart} />
      <div ref={element} className="terminal" data-terminal={state.name} />
      <p className="dim">{t("leave")}</p>
      <div className="row">
        <TextInput label={t("find")} value={text} error={missing && t("notFound")} onChange={({ currentTarget }) => setText(currentTarget.value)} onKeyDown={({ key }) => key === "Enter" && find()} />
        <Button variant="default" onClick={find} disabled={text === ""}>
          {t("findNext")}
        </Button>
        <Checkbox
          label={t("screenReader")}
          checked={aloud}
          onChange={({ currentTarget }) => {
            setAloud(currentTarget.checked);
            view.current?.readAloud(currentTarget.checked);
          }}
        />
      </div>
      <Paste text={pasted} settle={settle} />
    </section>
  );
}
