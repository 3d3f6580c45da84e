import { Button, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useTranslations } from "use-intl";
import { api, unwrap } from "../../api/client";
import { Content } from "../../components/system/section";
import { keys } from "../../query/keys";
import { Playback, castOf } from "../../terminal/playback";
import { show } from "../../terminal/view";
import { styleNonce } from "../../theme/nonce";

const speeds = [1, 2, 4, 8, 16];

// Player shows a recording. Each time that it opens is a read that the audit log records.
export function Player({ id }: { id: string }) {
  const query = useQuery({
    queryKey: keys.recording(id),
    queryFn: () => unwrap(api.GET("/api/v1/terminal-recordings/{id}", { params: { path: { id } }, parseAs: "text" })),
    staleTime: Infinity,
    gcTime: 0,
  });
  return <Content query={query}>{(text) => <Screen text={text} />}</Content>;
}

function Screen({ text }: { text: string }) {
  const t = useTranslations("recordings");
  const element = useRef<HTMLDivElement>(null);
  const playback = useRef<Playback | undefined>(undefined);
  const [state, setState] = useState<"plays" | "paused" | "ended">("plays");
  const [speed, setSpeed] = useState(1);
  const [round, setRound] = useState(0);
  const label = t("screen");
  useEffect(() => {
    if (element.current === null) return;
    const cast = castOf(text);
    const view = show(element.current, { label, nonce: styleNonce(), recorded: [cast.columns, cast.rows], input: () => {}, resize: () => {}, pasted: () => {} });
    const encoder = new TextEncoder();
    const shown = new Playback(cast, { write: (output) => view.write(encoder.encode(output)), resize: view.resize, ended: () => setState("ended") }, 1);
    playback.current = shown;
    setState("plays");
    setSpeed(1);
    shown.play();
    return () => {
      shown.pause();
      view.dispose();
    };
  }, [text, label, round]);
  const toggle = () => {
    if (state === "ended") return setRound((before) => before + 1);
    if (state === "plays") playback.current?.pause();
    else playback.current?.play(speed);
    setState(state === "plays" ? "paused" : "plays");
  };
  return (
    <div className="stack">
      <div ref={element} className="recording" data-recording={state} />
      <div className="row">
        <Button onClick={toggle}>{t(`actions.${state}`)}</Button>
        <NativeSelect
          label={t("speed")}
          value={String(speed)}
          onChange={({ currentTarget }) => {
            const chosen = Number(currentTarget.value);
            setSpeed(chosen);
            if (state === "plays") playback.current?.play(chosen);
          }}
          data={speeds.map((value) => ({ value: String(value), label: t("times", { value: String(value) }) }))}
        />
      </div>
    </div>
  );
}
